// Run a program of C that was compiled to WebAssembly without a C library, and return the bytes that it prints.
function runWasm(bytes) {
  const module = new WebAssembly.Module(bytes), printed = [];
  let memory, unused;
  const all = () => new Uint8Array(memory.buffer);
  const allocate = (align, size) => {
    const at = Math.ceil(unused / align) * align;
    unused = at + size;
    const missing = unused - memory.buffer.byteLength;
    if (missing > 0) memory.grow(Math.ceil(missing / 65536));
    return at;
  };
  const copy = (to, from, count) => (all().copyWithin(to, from, from + count), to);
  const library = {
    malloc: (size) => allocate(64, size),
    aligned_alloc: allocate,
    free: () => {},
    memcpy: copy,
    memmove: copy,
    memset: (to, byte, count) => (all().fill(byte, to, to + count), to),
    fwrite: (from, size, count) => (printed.push(...all().slice(from, from + size * count)), count),
    fprintf: () => 0,
  };
  const find = (name) => library[name] ?? Math[name] ?? Math[name.replace(/f$/, "")];
  const names = WebAssembly.Module.imports(module).map((each) => each.name);
  const missing = names.filter((name) => !find(name));
  if (missing.length) throw new Error(`it imports ${missing}`);
  const env = Object.fromEntries(names.map((name) => [name, find(name)]));
  const wasm = new WebAssembly.Instance(module, {env}).exports;
  memory = wasm.memory;
  unused = wasm.__heap_base.value;
  const code = wasm.run();
  if (code) throw new Error(`it returned ${code}`);
  return printed;
}
