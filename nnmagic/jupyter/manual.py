"""What %%tinynn? and %%relay? say beside the options: the end of a manual page."""

from __future__ import annotations

TINYNN = """\
the cell:
  Functions in Python's syntax with a type for each parameter, and classes that declare data types:

    %%tinynn
    def dense(x: Tensor[("n", 784), f32], scale: f32):
        return relu(x @ weights) * scale

  A dimension is a number, a name ("n") that is known when the function is called, or a name of the
  notebook. Names of the notebook are looked up when the cell is compiled: numbers, strings and tuples
  are known then, arrays become constants, compiled functions are called. Nothing of the cell is run by
  Python. Dtypes do not mix by themselves: write x.astype(f32).

what is shown:
  relay        the cell as Relay; hover an operator for its type (what is shown without --show)
  relay-typed  the same with the type of every expression
  graph        the dataflow graph, as a picture
  source tree relax tir llvm asm
               the other stages of each function, closed until they are opened

examples:
  %%tinynn -q                          show nothing
  %%tinynn --show relay,graph          the text and the picture
  %%tinynn --opt-level 0 --show asm    what the machine runs without optimisation
  %%tinynn -o f                        also bind the last function to f

see also:
  %tinynn help              the commands: show, ops, cache, profile
  %tinynn ops conv          operators whose names or summaries have "conv"
  nn.conv2d?                an operator's parameters
  %config TinyNNMagics      the settings: the defaults of the options, as in
                            %config TinyNNMagics.show = 'graph'
"""

RELAY = """\
the cell:
  A module of Relay's text format, version 0.0.5; the version line may be left out:

    %%relay
    def @main(%x: Tensor[(2, 3), float32]) {
      nn.relu(%x)
    }

  Constants and attributes that stand in a metadata section are read, too. What real Relay refuses is
  refused here.

examples:
  %%relay -o model -q        bind @main to model, too, and show nothing
  %%relay --show graph       the dataflow graph, as a picture

see also:
  %%tinynn?                  the same from functions in Python's syntax
  %tinynn ops                the operators
"""
