"""Run compiled programs. Imports TVM's runtime library, never its compiler."""
