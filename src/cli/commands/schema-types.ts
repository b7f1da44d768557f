// The entity map of a tenant for the typed client: `createClient<Schema>`. Written from the definitions that the credential may
// read, with the operations that it may use. With --check nothing is written: exit code 1 means that the file no longer matches
// the service.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import type { Command } from 'commander';
import type { EntityDefinition } from '../../../client/src/schema-types.ts';
import { type Call, runs } from '../call.ts';
import { EXIT, Failure, UsageError } from '../failures.ts';

interface TypesOptions {
  out?: string;
  check?: boolean;
}

const HEADER =
  '// Written by `tds types` from the entities of the tenant; changes are lost when it is written again.\n\n';

export function addTypes(program: Command): void {
  const types = program
    .command('types')
    .option('--out <file>', 'default: standard output')
    .option('--check', 'only say whether the file is up to date')
    .description('write the TypeScript types of the entities, for the client')
    .addHelpText('after', '\nExample:\n  $ tds types --out src/schema.ts');
  runs(types, writeTypes);
}

async function writeTypes({ service, output, options }: Call<TypesOptions>): Promise<void> {
  const { out, check } = options;
  if (check && out === undefined) throw new UsageError('--check needs --out with the file to look at');
  const { schemaTypes } = await import('../../../client/src/schema-types.ts');
  const entities = await service.get<EntityDefinition[]>('/api/entities');
  const text = `${HEADER}${[...schemaTypes(entities)].join('\n\n')}\n`;
  if (out === undefined) return output.write(text);
  if (check) {
    if (existsSync(out) && readFileSync(out, 'utf8') === text) return output.note(`${out} is up to date`);
    throw new Failure(`${out} is not up to date`, `write it with \`tds types --out ${out}\``, EXIT.failed);
  }
  writeFileSync(out, text);
  await output.answer({ file: out, entities: entities.length }, () =>
    output.note(`${out}: the types of ${entities.length} entities`),
  );
}
