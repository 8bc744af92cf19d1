"""Parse a whole cell: functions and data types, with every syntax error in it."""

from __future__ import annotations

import ast as py
import copy
import inspect
import re
import warnings
from collections.abc import Sequence
from itertools import islice

from synr import ast

from nnmagic.diagnostics import Diagnostics, Source
from nnmagic.limits import MAX_CHARACTERS, MAX_INNER_FUNCTIONS
from nnmagic.tinynn.syntax import tree, unsupported_syntax
from nnmagic.tinynn.syntax.constants import as_function, assigned_constants
from nnmagic.tinynn.syntax.decorators import COMPILERS, KEEPING, METHODS, OTHER_DECORATORS, calls_itself_twice
from nnmagic.tinynn.syntax.generator_functions import with_lists_for_generators
from nnmagic.tinynn.syntax.gradient_rules import is_of_rule, with_gradient_rules
from nnmagic.tinynn.syntax.heaps import mark_own_calls
from nnmagic.tinynn.syntax.lifted_functions import with_lifted_functions
from nnmagic.tinynn.syntax.memoized_functions import with_tables
from nnmagic.tinynn.syntax.nested_parameters import (
    NOTHING_NESTED,
    Nested,
    NestedUseError,
    with_nested_parameters,
)
from nnmagic.tinynn.syntax.patterns import find_bound_names
from nnmagic.tinynn.syntax.plain_dictionaries import with_plain_dictionaries
from nnmagic.tinynn.syntax.plain_objects import with_plain_objects
from nnmagic.tinynn.syntax.ragged_lists import with_chains
from nnmagic.tinynn.syntax.source_spans import SpanMap
from nnmagic.tinynn.syntax.statements import NESTED, NESTED_HINT, StatementCompiler, statement_refusal
from nnmagic.tinynn.syntax.written_code import statements_at

_ASSIGNMENTS = py.AnnAssign | py.Assign
_CONSTRUCTORS = "declare constructors, as in def Leaf(value: Tensor[(3,), f32]): ..."


def parse(
    source: Source,
    diagnostics: Diagnostics,
    *,
    methods: bool = False,
    nested: Nested = NOTHING_NESTED,
) -> tree.CellNode | None:
    """Return the tree of a cell, or None if Python itself cannot parse it; errors go to ``diagnostics``.

    ``methods``: whether a function may have a parameter ``self`` without a type. ``nested``: the parts of the
    arguments of functions that are lists of lists, and the like.
    """
    spans = SpanMap(source)
    if len(source.text) > MAX_CHARACTERS:
        hint = "divide it into several cells"
        diagnostics.error(f"a cell has at most {MAX_CHARACTERS} characters", spans.start, hint=hint)
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `x is 1` and "\d" are refused or harmless here
        try:
            module = py.parse(source.text, source.filename)
        except SyntaxError as error:
            is_slip = error.msg in ("invalid syntax", "expected ':'")
            place = (error.text or "", (error.offset or 1) - 1)
            suggestion = unsupported_syntax.syntax_hint(*place) if is_slip else None
            span = spans.of_syntax_error(error, in_bytes=False)
            diagnostics.error(_message(error, source), span, hint=suggestion)
            return None
        except (RecursionError, MemoryError):
            diagnostics.error(NESTED, spans.of_longest_line(), hint=NESTED_HINT)
            return None
        except ValueError as error:  # null bytes and lone surrogates
            diagnostics.error(f"the source cannot be read: {error}", spans.start)
            return None
        words = sum(map(source.text.count, ("def", "lambda", "for")))  # each of them has one
        inner = _find_function_beyond(module, MAX_INNER_FUNCTIONS) if words > MAX_INNER_FUNCTIONS else None
        if inner is not None:
            message = (
                f"the functions of a cell hold at most {MAX_INNER_FUNCTIONS} functions and comprehensions"
            )
            diagnostics.error(message, spans.public(spans.of(inner)), hint="divide it into several cells")
            return None
        mark_own_calls(module)
        compiler = CellCompiler(spans, diagnostics, methods=methods, nested=nested)
        result = compiler.compile_module(module)
        is_nested_too_deep = _check_by_python(module, spans, diagnostics)
    return None if is_nested_too_deep else result


def _find_function_beyond(module: py.Module, limit: int) -> py.expr | py.stmt | None:
    """Return the first function inside another that is one too many, in the order of a walk; else None."""
    inner = py.Lambda | py.FunctionDef | py.ListComp | py.GeneratorExp
    candidates = (
        node
        for statement in module.body
        for node in py.walk(statement)
        if node is not statement and isinstance(node, inner)
    )
    return next(islice(candidates, limit, None), None)


def _check_by_python(module: py.Module, spans: SpanMap, diagnostics: Diagnostics) -> bool:
    """Run Python's own compiler, which finds errors beyond grammar: duplicate arguments, a stray return.

    Return whether blocks are nested so deep that looking for more errors would take long.
    """
    try:
        compile(module, spans.source.filename, "exec", dont_inherit=True)
    except SyntaxError as error:
        span = spans.of_syntax_error(error, in_bytes=True)
        if all(other.span is None or other.span.line != span.line for other in diagnostics.errors):
            diagnostics.error(_message(error, spans.source), span)
        return "nested blocks" in (error.msg or "")
    except (RecursionError, MemoryError):
        diagnostics.error(NESTED, spans.of_longest_line(), hint=NESTED_HINT)
    return False


def _message(error: SyntaxError, source: Source) -> str:
    """Return Python's message with its line numbers counted as in the user's cell."""

    def renumber(match: re.Match[str]) -> str:
        return f"{match[1]}{int(match[2]) + source.first_line - 1}"

    return re.sub(r"(\b(?:on|at) line )(\d+)", renumber, error.msg or "invalid syntax")


class CellCompiler(StatementCompiler):
    """Compiler of functions and classes; its base classes compile statements and expressions."""

    def __init__(
        self,
        spans: SpanMap,
        diagnostics: Diagnostics,
        *,
        methods: bool = False,
        nested: Nested = NOTHING_NESTED,
    ) -> None:
        super().__init__(spans, diagnostics)
        self.methods = methods
        self.nested = nested

    def compile_module(self, program: py.Module) -> tree.CellNode:
        """Compile all functions and data types of the cell, by name in source order."""
        functions: dict[str, tree.DefinitionNode] = {}
        types: dict[str, tree.DataTypeNode] = {}
        refused: set[str] = set()
        imports: list[tree.Import] = []
        constants: dict[str, object] = {}
        body: Sequence[py.stmt] = with_lists_for_generators(self._with_nested(with_tables(program.body)))
        body = with_plain_objects(with_lifted_functions(body))
        body = body if self.methods else with_gradient_rules(body, self.refuse_node)
        for stmt in body:
            statement = as_function(stmt) or stmt
            if isinstance(statement, py.FunctionDef | py.ClassDef):
                self._add(functions, types, statement)
            elif (assigned := assigned_constants(statement, constants)) is not None:
                constants |= assigned
            elif isinstance(statement, py.Import | py.ImportFrom) and not _is_harmless(statement):
                compiled = self.compile_stmt(statement)
                imports += [compiled] if isinstance(compiled, tree.Import) else []
                refused.update(() if isinstance(compiled, tree.Import) else find_bound_names(statement))
            elif not _is_harmless(statement):
                kind = type(statement).__name__
                message, hint = unsupported_syntax.TOP_LEVEL.get(kind) or statement_refusal(kind)
                self.refuse_statement(statement, message, hint)
                refused.update(find_bound_names(statement))
        if not functions and not types and not self.diagnostics.errors:
            hint = "write one, as in def f(x: Tensor[(2, 3), f32]): return x + 1"
            self.diagnostics.error("the cell holds no function", self.spans.start, hint=hint)
        last = len(self.spans.lines)
        whole = self.spans.span(1, 0, last, len(self.spans.lines[-1]))
        return tree.CellNode(whole, functions, types, frozenset(refused), imports, constants)

    def _with_nested(self, body: Sequence[py.stmt]) -> Sequence[py.stmt]:
        """Return the statements of the cell with what they read of nested arguments; none with an error."""
        try:
            return with_nested_parameters(body, self.nested)
        except NestedUseError as error:
            place, name = error.node if isinstance(error.node, py.expr | py.stmt) else body[0], error.name
            message = f"`{name}` holds lists of the caller, of which a cell reads {name}[i] and its items"
            hint = (
                f"write {name}[i] where it is read, as in for x in {name}[i], or list({name}[i]) for a copy"
            )
            if error.changes:
                message = f"`{name}` holds lists of the caller, which Python would change"
                hint = "change lists that the function makes, as in new = [[] for _ in range(n)]"
            self.refuse(message, self.spans.of(place), hint)
            return []

    def _add(
        self,
        functions: dict[str, tree.DefinitionNode],
        types: dict[str, tree.DataTypeNode],
        statement: py.FunctionDef | py.ClassDef,
    ) -> None:
        name, name_span = statement.name, self._name_span(statement)
        first = functions.get(name) or types.get(name)
        if first is not None:
            hint = f"the first one is on line {first.name_span.start_line}; give one of them another name"
            self.refuse(f"`{name}` is defined twice", name_span, hint)
            return
        try:
            if isinstance(statement, py.FunctionDef):
                functions[name] = self.compile_def(statement, nested=False)
            else:
                types[name] = self._data_type(statement)
        except RecursionError:
            self.refuse(NESTED, name_span, NESTED_HINT)

    def _name_span(self, statement: py.FunctionDef | py.ClassDef) -> ast.Span:
        keyword = "def" if isinstance(statement, py.FunctionDef) else "class"
        return self.spans.word(statement.lineno, statement.col_offset, rf"{keyword}\s+")

    # -- functions -------------------------------------------------------------------------------------

    def compile_def(self, stmt: py.FunctionDef, *, nested: bool = True) -> tree.DefinitionNode:
        """Compile a function, with the span of its name and its docstring."""
        decorators: list[ast.Expr] = []
        for decorator in stmt.decorator_list:
            function = decorator.func if isinstance(decorator, py.Call) else decorator
            name = py.unparse(function)
            is_kernel = isinstance(decorator, py.Name) and name == "kernel" and not nested
            if name.rpartition(".")[2] in KEEPING and not calls_itself_twice(stmt):
                continue  # what it would keep is computed again
            if is_kernel or name.rpartition(".")[2] in COMPILERS or _is_vectorize(decorator):
                span = self.spans.of(decorator)
                decorators.append(ast.Var(span, ast.Id(span, name)))
                continue
            if self.methods and is_of_rule(decorator):  # the object of the notebook has the rule
                continue
            hint = "remove it" if nested else "remove it; options go on the %%tinynn line"
            hint = OTHER_DECORATORS.get(name.rpartition(".")[2], hint)
            self.refuse("a function of a cell takes no decorator", self.spans.of(decorator), hint)
        self._refuse_type_parameters(stmt)
        if not nested:
            stmt = with_chains(with_plain_dictionaries(stmt))
        if any(map(_is_vectorize, stmt.decorator_list)):
            stmt = _of_elements(stmt)
        stmt = _with_ranks(stmt)
        first = next(iter([*stmt.args.posonlyargs, *stmt.args.args]), None)
        is_refused = not nested and not self.methods
        if is_refused and first is not None and first.arg == "self" and not first.annotation:
            hint = "a method cannot be compiled: write a function, and give it what it needs"
            self.refuse("parameter `self` has no type", self.spans.of(first), hint)
        docstring = py.get_docstring(stmt, clean=False)
        outer, self.function = self.function, stmt
        node = tree.DefinitionNode(
            self.spans.of(stmt),
            stmt.name,
            self.compile_args_to_params(stmt.args),
            None if stmt.returns is None else self.compile_type(stmt.returns),
            self.compile_block(stmt.body),
            decorators,
            self._name_span(stmt),
            None if docstring is None else inspect.cleandoc(docstring),
        )
        self.function = outer
        return node

    def _refuse_type_parameters(self, stmt: py.FunctionDef | py.ClassDef) -> None:
        for parameter in getattr(stmt, "type_params", []):
            self.refuse("type parameters are not part of TinyNN", self.spans.of(parameter))

    # -- data types ------------------------------------------------------------------------------------

    def _data_type(self, stmt: py.ClassDef) -> tree.DataTypeNode:
        """Compile a class whose body declares constructors."""
        is_record = _declares_fields(stmt)  # as NamedTuple and dataclass do
        for decorator in stmt.decorator_list:
            function = decorator.func if isinstance(decorator, py.Call) else decorator
            if not is_record or py.unparse(function).rpartition(".")[2] != "dataclass":
                self.refuse("a class of a cell takes no decorator", self.spans.of(decorator), "remove it")
        for base in [*stmt.bases, *(keyword.value for keyword in stmt.keywords)]:
            if is_record and py.unparse(base).rpartition(".")[2] == "NamedTuple":
                continue
            hint = "leave the brackets out: a class of a cell lists constructors"
            if py.unparse(base).endswith("Module"):
                hint = "write a function, which captures arrays of the notebook: `return relu(x @ w + b)`"
            self.refuse("a class of a cell has no base", self.spans.of(base), hint)
        self._refuse_type_parameters(stmt)
        record = self._record(stmt)
        declared = {single.name: single for single in record or self._stray_fields(stmt)}
        for statement in stmt.body:
            if isinstance(statement, _ASSIGNMENTS):
                continue
            for constructor in self._constructors(statement):
                if constructor.name in declared:
                    self.refuse(f"the constructor `{constructor.name}` is declared twice", constructor.span)
                    continue
                declared[constructor.name] = constructor
        if not declared and not self.diagnostics.errors:
            hint = _CONSTRUCTORS
            self.refuse(f"the class `{stmt.name}` declares no constructor", self._name_span(stmt), hint)
        docstring = py.get_docstring(stmt, clean=True)
        return tree.DataTypeNode(
            self.spans.of(stmt),
            stmt.name,
            self._name_span(stmt),
            list(declared.values()),
            docstring,
            is_record=bool(record),
        )

    def _constructors(self, statement: py.stmt) -> list[tree.ConstructorDeclaration]:
        match statement:
            case py.FunctionDef(name=name, args=args, decorator_list=[]) if _is_empty(statement.body):
                fields = self.compile_args_to_params(args, typed=True)
                return [tree.ConstructorDeclaration(self._name_span(statement), name, fields)]
            case py.ClassDef(name=name, bases=[], keywords=[], decorator_list=[]) as inner:
                parts = [self._field(part) for part in inner.body if not _is_empty([part])]
                kept = [field for field in parts if field is not None]
                return [tree.ConstructorDeclaration(self._name_span(inner), name, kept)]
            case _ if _is_empty([statement]):
                return []
        hint = _CONSTRUCTORS
        message = "a class of a cell holds constructors only"
        if isinstance(statement, py.FunctionDef):
            message = f"the constructor `{statement.name}` has a body"
            hint = "write `...` as its body; what is computed goes in a function"
            if statement.args.args[:1] and statement.args.args[0].arg == "self":
                hint = METHODS
        self.refuse_statement(statement, message, hint)
        return []

    def _bare_field(self, statement: py.stmt) -> tree.ParameterNode | None:
        match statement:
            case py.AnnAssign(target=py.Name(id=name) as target, annotation=annotation):
                return tree.ParameterNode(self.spans.of(target), name, self.compile_type(annotation))
        return None

    def _field(self, statement: py.stmt) -> tree.ParameterNode | None:
        if getattr(statement, "value", None) is None and (field := self._bare_field(statement)) is not None:
            return field
        hint = "write name: type, as in value: Tensor[(3,), f32]"
        self.refuse_statement(statement, "a constructor holds fields only", hint)
        return None

    def _record(self, stmt: py.ClassDef) -> list[tree.ConstructorDeclaration]:
        """Return the constructor of a class that declares fields alone, as a dataclass does."""
        if not _declares_fields(stmt):
            return []
        statements = [part for part in stmt.body if not _is_empty([part])]
        fields = [field for statement in statements if (field := self._field(statement)) is not None]
        names = [field.name for field in fields]
        for field in fields:
            if names.count(field.name) > 1:
                self.refuse(f"the field `{field.name}` is declared twice", field.span)
                break
        return [tree.ConstructorDeclaration(self._name_span(stmt), stmt.name, fields)]

    def _stray_fields(self, stmt: py.ClassDef) -> list[tree.ConstructorDeclaration]:
        """Refuse, once, fields in the class itself, as in a dataclass; return the constructor they mean."""
        stray = [assignment for assignment in stmt.body if isinstance(assignment, _ASSIGNMENTS)]
        if not stray:
            return []
        fields = [
            assignment
            for assignment in stray
            if isinstance(assignment, py.AnnAssign) and isinstance(assignment.target, py.Name)
        ]
        hint = _CONSTRUCTORS
        if fields:
            listed = ", ".join(
                f"{py.unparse(member.target)}: {py.unparse(member.annotation)}" for member in fields
            )
            hint = f"write a constructor that has them, as in def {stmt.name}({listed}): ..."
        message = f"the class `{stmt.name}` has fields that belong to no constructor"
        self.refuse(message, self.spans.of(stray[0]), hint)
        kept = [field for field in map(self._bare_field, fields) if field is not None]
        return [tree.ConstructorDeclaration(self._name_span(stmt), stmt.name, kept)]


def _declares_fields(stmt: py.ClassDef) -> bool:
    """Return whether a class declares fields alone, without defaults."""
    statements = [part for part in stmt.body if not _is_empty([part])]
    return bool(statements) and all(
        isinstance(statement, py.AnnAssign) and statement.value is None for statement in statements
    )


def _is_vectorize(decorator: py.expr) -> bool:
    """Return whether a decorator is numba's or NumPy's ``vectorize``."""
    function = decorator.func if isinstance(decorator, py.Call) else decorator
    return py.unparse(function).rpartition(".")[2] == "vectorize"


def _with_ranks(stmt: py.FunctionDef) -> py.FunctionDef:
    """Return a function under numba's ``guvectorize`` with checks of its arguments' ranks, or any other one.

    Arguments of a higher rank would mean a loop over the other axes.
    """
    layouts = [
        arg.value
        for decorator in stmt.decorator_list
        if isinstance(decorator, py.Call) and py.unparse(decorator.func).endswith("guvectorize")
        for arg in decorator.args
        if isinstance(arg, py.Constant) and isinstance(arg.value, str)
    ]
    if not layouts:
        return stmt
    ranks = [len(re.findall(r"\w+", node)) for node in re.findall(r"\(([^)]*)\)", layouts[0])]
    text = ""
    for arg, rank in zip(stmt.args.args, ranks, strict=False):
        axes = "1 axis" if rank == 1 else f"{rank} axes"
        message = f"`{arg.arg}` must have {axes}, as the layout says: write a loop over others"
        text += f"assert numpy.ndim({arg.arg}) == {rank}, {message!r}\n"
    checks = statements_at(stmt.decorator_list[0], text)
    begin = 1 if py.get_docstring(stmt) is not None else 0
    made = copy.copy(stmt)
    made.body = [*stmt.body[:begin], *checks, *stmt.body[begin:]]
    return made


def _of_elements(stmt: py.FunctionDef) -> py.FunctionDef:
    """Return a function of arrays that calls one of elements, whose source it has, for each of these."""
    name = f"{stmt.name}_of_elements"
    args = [py.arg(argument.arg) for argument in (*stmt.args.posonlyargs, *stmt.args.args)]
    inner_args = py.arguments([], args, None, [], [], None, [])
    inner = py.FunctionDef(name, inner_args, stmt.body, [])
    function = py.Attribute(py.Name("numpy", py.Load()), "vectorize", py.Load())
    mapped = py.Call(function, [py.Name(name, py.Load())], [])
    result = py.Call(mapped, [py.Name(argument.arg, py.Load()) for argument in args], [])
    definition = py.FunctionDef(
        stmt.name, stmt.args, [inner, py.Return(result)], stmt.decorator_list, stmt.returns
    )
    for part in (definition, inner, *definition.body):
        py.copy_location(part, stmt)
    return py.fix_missing_locations(definition)


def _is_harmless(statement: py.stmt) -> bool:
    """Return whether a statement is the cell's docstring or an import from the future."""
    if isinstance(statement, py.ImportFrom):
        return statement.module == "__future__"
    return isinstance(statement, py.Expr) and isinstance(getattr(statement.value, "value", None), str)


def _is_empty(body: list[py.stmt]) -> bool:
    """Return whether a statement is a docstring, ``...`` or ``pass``."""
    return all(
        isinstance(stmt, py.Pass)
        or (
            isinstance(stmt, py.Expr)
            and isinstance(stmt.value, py.Constant)
            and (stmt.value.value is Ellipsis or isinstance(stmt.value.value, str))
        )
        for stmt in body
    )
