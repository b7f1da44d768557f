// The client as one file of TypeScript: its modules in the order of their imports, without imports, and without exports that
// client.ts does not make. The package is compiled from it, and MCP gives it to agents, who keep one file. So no two modules
// have a name in common, and none ends in `Record`, `Create` or `Update`, as the names of generated types do.
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const SOURCES = new URL('src/', import.meta.url);
const ENTRY = 'client.ts';
/** `import ... from` and `export { ... } from`; the lists of names have no braces in them. */
const IMPORT = /^(?:import|export)\b[^;{]*(?:\{([^}]*)\})?\s*from '\.\/([\w-]+\.ts)';\n/gm;

export async function bundledClient(): Promise<string> {
  const bodies = new Map<string, string>();
  const exported = new Set<string>();
  const add = async (name: string): Promise<void> => {
    if (bodies.has(name)) return;
    const text = await readFile(fileURLToPath(new URL(name, SOURCES)), 'utf8');
    bodies.set(name, '');
    for (const [statement, names = '', from = ''] of text.matchAll(IMPORT)) {
      await add(from);
      if (name === ENTRY && statement.startsWith('export')) {
        for (const one of names.split(',')) exported.add(one.replace(/\btype\b/, '').trim());
      }
    }
    // In the order in which the modules are evaluated: those that are imported come first.
    bodies.delete(name);
    bodies.set(name, text.replace(IMPORT, '').trim());
  };
  await add(ENTRY);
  const own = bodies.get(ENTRY) ?? '';
  bodies.delete(ENTRY);
  const inner = [...bodies.values()]
    .join('\n\n')
    .replace(DECLARATION, (line, name: string) => (exported.has(name) ? line : line.replace('export ', '')));
  return `${inner}\n\n${own}\n`;
}

const DECLARATION = /^export (?:async )?(?:function\*?|class|interface|type|const) (\w+)/gm;
