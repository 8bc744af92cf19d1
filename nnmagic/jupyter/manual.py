"""Hold the text that %%tinynn?, %%relay? and %onnx? show below the options."""

from __future__ import annotations

TINYNN = """\
the cell:
  Functions in Python's syntax with a type for each parameter, and classes that declare data types:

    %%tinynn
    def dense(x: Tensor[("n", 784), f32], scale: f32):
        return relu(x @ weights) * scale

  A dimension is a number, a name ("n") that each call gives a value, or a name of the notebook. Names
  of the notebook are looked up when the cell is compiled: numbers, strings and tuples are compile-time
  values, arrays become constants, compiled functions can be called. Python never executes the cell.
  Dtypes meet as in NumPy, f32 and f64 in f64, but integers and floats in the dtype of the floats; put
  --no-promote on the magic's line to have wider floats refused. A parameter without a type takes that of
  each call: def dense(x, scale=1.0).

stages for --show:
  relay        the cell as Relay (the default); hover an operator for its type, a line for its source
  relay-typed  the same with the type of every expression
  graph        the dataflow graph, as a picture
  passes       what each pass changed in the Relay, as a diff
  source tree relax tir llvm asm
               the other stages of each function; the first lines of a long one

examples:
  %%tinynn -q                          show nothing
  %%tinynn --show relay,graph          the text and the picture
  %%tinynn --opt-level 0 --show asm    the machine code without optimisation
  %%tinynn --passes fold_constants,mine  run passes first, of the library or functions of the notebook
  %%tinynn -o f                        also bind the last function to f

see also:
  %tinynn help              the commands: show, ops, cache, profile
  %tinynn ops conv          search the operators
  nn.conv2d?                an operator's parameters
  %config TinyNNMagics      the settings, which are the defaults of the options, as in
                            %config TinyNNMagics.show = 'graph'
"""

RELAY = """\
the cell:
  A module in Relay's text format, version 0.0.5; the version line is optional:

    %%relay
    def @main(%x: Tensor[(2, 3), float32]) {
      nn.relu(%x)
    }

  Constants and attributes in a metadata section are read, too. Text that Relay rejects is rejected
  here.

examples:
  %%relay -o model -q        also bind @main to model, and show nothing
  %%relay --show graph       the dataflow graph, as a picture

see also:
  %%tinynn?                  the same from functions in Python's syntax
  %tinynn ops                the operators
"""

ONNX = """\
examples:
  %onnx resnet50.onnx                     compile a model, and bind it to resnet50
  %onnx bert.onnx -o bert --shape ids=n,128 -q
                                          fix a size, name another, show nothing

see also:
  nnmagic.from_onnx?         the same from Python
  nnmagic.relay.from_onnx?   only the Relay module
"""
