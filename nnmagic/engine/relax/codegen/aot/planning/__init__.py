"""What plans functions of AOT programs: arrays and sizes, values, calls, control flow."""
