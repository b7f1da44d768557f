// MCP tools to sign in, to select the tenant, and to get the API document and a generated client, both limited to what the
// caller may use. Failures: the failures of the operations.
// Contract: interface#mcp.
import { Type } from '@sinclair/typebox';
import { visibleEntities } from '../docs/visible-entities.ts';
import { catalogOf } from '../entities/catalog.ts';
import { oneOf, Uuid } from '../http/schemas.ts';
import { signIn } from '../users/sign-in.ts';
import { clientSource } from './client-source.ts';
import { ADDS, defineTool, EntityName, READS, REPLACES, TENANT_SLUG, type Tool, toolInput } from './tool.ts';

const Text = (max: number, description: string) => Type.String({ minLength: 1, maxLength: max, description });
const User = Type.Object({ id: Uuid, email: Type.String(), name: Type.String(), role: Type.String() });

export const TENANT_TOOLS: readonly Tool[] = [
  defineTool({
    name: 'tenant_login',
    title: 'Sign in to a tenant',
    description: `Signs a user in with e-mail address and password (sensitive: do not repeat or store it). In a session, later tools act
as that user. Returns a JWT valid for 24 hours, to be sent as "Authorization: Bearer" without a session. Needs no credential.`,
    access: 'open',
    hints: ADDS,
    input: Type.Object(
      {
        tenantSlug: TENANT_SLUG,
        email: Text(254, 'The user’s e-mail address.'),
        password: Text(200, 'The user’s password. Sensitive.'),
      },
      { additionalProperties: false },
    ),
    output: Type.Object({
      token: Type.String(),
      user: User,
      isKept: Type.Boolean({ description: 'Whether this session acts as the user from now on.' }),
    }),
    run: async ({ app, request, session }, { email, password }) => {
      const signedIn = await signIn(app, request, { email, password });
      return { ...signedIn, isKept: await session.logIn(signedIn.token) };
    },
  }),
  defineTool({
    name: 'select_tenant',
    title: 'Select the tenant',
    description: `Sets the tenant of this session. Without a session it only checks your access to the tenant: pass the argument tenantSlug
in each call instead.`,
    access: 'tenant',
    hints: { ...REPLACES, destructiveHint: false },
    input: Type.Object({ tenantSlug: TENANT_SLUG }, { additionalProperties: false }),
    output: Type.Object({
      tenant: Type.Object({ id: Uuid, slug: Type.String(), name: Type.String() }),
      isKept: Type.Boolean({ description: 'Whether a session stores it.' }),
    }),
    run: async ({ caller, session }) => {
      const { id, slug, name } = caller.tenant;
      return { tenant: { id, slug, name }, isKept: await session.selectTenant(slug) };
    },
  }),
  defineTool({
    name: 'get_rest_api_spec',
    title: 'Get the REST API document',
    description:
      'The REST routes and entities that you may use, as an OpenAPI 3.1 document: a summary, or with detail "full" all of it. Name one entity, if you need no other.',
    access: 'any',
    hints: READS,
    text: 'The API document is in the structured content.',
    input: toolInput({
      entity_name: Type.Optional(EntityName),
      detail: Type.Optional(
        oneOf(['summary', 'full'], { description: 'default: summary', error: 'must be summary or full' }),
      ),
    }),
    output: Type.Object(
      {
        openapi: Type.String(),
        info: Type.Object({}, { additionalProperties: true }),
        paths: Type.Object({}, { additionalProperties: true }),
      },
      { additionalProperties: true },
    ),
    run: async ({ describeApi }, { entity_name: entityName, detail = 'summary' }) => describeApi(entityName, detail),
  }),
  defineTool({
    name: 'generate_api_client',
    title: 'Generate a typed client',
    description: `A TypeScript client for the tenant’s entities, with the fields and operations that you may use: one file without
dependencies, to be saved and imported.`,
    access: 'tenant',
    hints: READS,
    input: toolInput({}),
    output: Type.Object({ language: Type.Literal('typescript'), filename: Type.String(), source: Type.String() }),
    run: async ({ app, caller }) => {
      const { slug } = caller.tenant;
      const entities = visibleEntities(await catalogOf(app, caller.tenant), caller);
      const source = await clientSource(entities, { baseUrl: app.config.baseUrl ?? app.address, slug });
      return { language: 'typescript', filename: `${slug}-client.ts`, source };
    },
  }),
];
