// The source of a client for a tenant's entities: one file of TypeScript that compiles under `strict`. It is the client of
// client/, with the entity map for this caller and the address of this service; the map permits only the caller's operations.
// The same entities give the same source.
// Contract: interface#mcp.
import { bundledClient } from '../../client/bundle.ts';
import { type EntityDefinition, schemaTypes } from '../../client/src/schema-types.ts';
import type { VisibleEntity } from '../docs/visible-entities.ts';
import { giveWay } from '../runtime/event-loop.ts';

let bundle: Promise<string> | undefined;

/** `baseUrl` is the client's default address, `slug` its tenant. */
export async function clientSource(
  entities: readonly VisibleEntity[],
  { baseUrl, slug }: { baseUrl: string; slug: string },
): Promise<string> {
  bundle ??= bundledClient();
  const parts = [
    `// Client of the tenant ${slug}, with the entities, fields and operations permitted to the credential that generated it:
//   const client = connect('svc_...'); for await (const record of client.records('...').all()) ...
// Generated code: do not edit; generate it again.`,
  ];
  for (const types of schemaTypes(definitionsOf(entities))) {
    parts.push(types);
    await giveWay();
  }
  const options = `{ url: ${JSON.stringify(baseUrl)}, tenant: ${JSON.stringify(slug)}, credential, ...options }`;
  parts.push(`/** A client of this tenant. */
export function connect(credential: CredentialSource, options: Partial<ClientOptions> = {}): Client<Schema> {
  return createClient<Schema>(${options});
}`);
  return `${[...parts, await bundle].join('\n\n')}`;
}

/** The definitions of the entities. Targets of relations are named only if the caller may read them. */
function definitionsOf(entities: readonly VisibleEntity[]): EntityDefinition[] {
  const readable = new Map(
    entities.flatMap(({ id, name, operations }) => (operations.has('read') ? [[id, name]] : [])),
  );
  return entities.map(({ name, description, fields, operations }) => ({
    name,
    description,
    operations: [...operations],
    fields: fields.map(({ key, type, description: about, required, default: fallback, options, targetId }) => ({
      key,
      type,
      description: about,
      required,
      default: fallback,
      options: options ?? null,
      entity: readable.get(targetId ?? '') ?? null,
    })),
  }));
}
