"""A cell with a data type of lists, and a recursive function over it."""

LIST = """\
class List:
    def Nil(): ...
    def Cons(head: f32, tail: List): ...

def total(items: List) -> f32:
    match items:
        case Nil():
            return 0.0
        case Cons(head, tail):
            return head + total(tail)
"""
