"""What emits the bodies of native functions: registers, ends, memory and steps, each layer over the last."""
