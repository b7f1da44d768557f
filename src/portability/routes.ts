// The routes that export, import and clone a tenant. Documents are streams of any size: MAX_BODY_BYTES does not apply.
// Failures: 400, 403 if anyone but the super-admin asks for hashes, 404, 409, 429.
// Contract: portability#export, portability#import, portability#clone.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import { callerNow } from '../access/authenticate.ts';
import { addResponseHeaders } from '../access/request-context.ts';
import { TenantName, TenantSlug } from '../admin/tenants.ts';
import type { App } from '../app.ts';
import { forbidden, invalidField, notFound, ServiceError } from '../errors.ts';
import { requireIdentityEncoding } from '../http/body.ts';
import { steady } from '../http/body-progress.ts';
import { check, given } from '../http/check.ts';
import { guard } from '../http/guard.ts';
import { mayTakeLong } from '../http/own-idle.ts';
import { flagParameter, parameters } from '../http/parameters.ts';
import { created } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { oneOf } from '../http/schemas.ts';
import { download, NDJSON } from '../records/transfer/download.ts';
import { uploaded } from '../records/transfer/import.ts';
import { tenantBySlug } from '../tenants/tenants.ts';
import { cloneTenant, NewClone } from './clone.ts';
import { exampleDocument } from './document.ts';
import { type ExportedTenant, exportOwnTenant, exportTenant } from './export.ts';
import { ImportedTenant, importTenant } from './import.ts';

const TAG = 'Tenants';
const FILE_HEADERS = {
  'Content-Disposition': 'a file name with the slug of the tenant',
  'Changes-Cursor': 'the cursor of the header line: following from it misses nothing that the document does not hold',
};
const DOCUMENT = `One NDJSON document of one moment: a \`header\` with a cursor of the changes, then a line for each entity, role,
user, view, rule, platform API, webhook subscription and record, last an \`end\` with their counts. It holds no key and no
secret. A document without its last line is incomplete.`;

const EXPORT_OWN = route({
  id: 'exportOwnTenant',
  tag: TAG,
  summary: 'Export the caller’s tenant',
  description: DOCUMENT,
  access: 'admin',
  ok: [200, ['application/x-ndjson']],
  errors: ['CONFLICT'],
  responseHeaders: FILE_HEADERS,
});
const EXPORT = route({
  id: 'exportTenant',
  tag: TAG,
  summary: 'Export a tenant',
  description: `${DOCUMENT} With \`secrets=true\`, which only the super-admin may ask for, users have the hashes of their passwords.`,
  access: 'tenants:manage',
  query: parameters({
    secrets: Type.Optional(flagParameter({ description: 'with the hashes of the users’ passwords; super-admin only' })),
  }),
  pathExamples: { slug: 'demo' },
  ok: [200, ['application/x-ndjson']],
  errors: ['CONFLICT'],
  responseHeaders: FILE_HEADERS,
});

const IMPORT = route({
  id: 'importTenant',
  tag: TAG,
  summary: 'Import a tenant',
  description: `Makes a tenant of a document: everything equal, times and authors included, webhook subscriptions inactive. A
fault names its line and member, and leaves nothing. The answer contains the tenant’s first owner key, which is shown once.`,
  access: 'tenants:manage',
  query: parameters({
    slug: Type.Optional(
      Type.String({ description: 'of the new tenant; by default that of the document', examples: ['acme-copy'] }),
    ),
    name: Type.Optional(Type.String({ description: 'of the new tenant; by default that of the document' })),
    ids: Type.Optional(
      oneOf(['keep', 'new'], {
        description: 'whether the ids are those of the document',
        default: 'keep',
        error: 'must be keep or new',
      }),
    ),
  }),
  bodyTypes: ['application/x-ndjson'],
  example: exampleDocument(),
  ok: [201, ImportedTenant],
  errors: ['CONFLICT', 'UNSUPPORTED_MEDIA_TYPE'],
});
const CLONE = route({
  id: 'cloneTenant',
  tag: TAG,
  summary: 'Copy a tenant',
  description: `As an import of the tenant’s export, with the values of some fields left out or hashed. Users have no passwords in
the copy. The answer contains the copy’s first owner key, which is shown once.`,
  access: 'tenants:manage',
  body: NewClone,
  pathExamples: { slug: 'demo' },
  example: { slug: 'demo-staging', name: 'Staging', mask: { people: { fullName: 'hash' } } },
  ok: [201, ImportedTenant],
  errors: ['CONFLICT'],
});

export function portabilityRoutes(app: App) {
  return new Elysia({ name: 'portability' })
    .use(guard(app))
    .get(
      '/api/tenant/export',
      async ({ caller, request }) => {
        const now = callerNow(app, request, caller);
        return document(request, caller.tenant.slug, (onCut) =>
          exportOwnTenant(app, caller, { onCut, callerNow: now }),
        );
      },
      EXPORT_OWN,
    )
    .get(
      '/api/admin/platform/tenants/:slug/export',
      async ({ caller, params, query, request }) => {
        const withHashes = query.secrets === true;
        if (withHashes && caller.kind !== 'super_admin')
          throw forbidden('only the super-admin exports hashes of passwords');
        const tenant = await tenantBySlug(app, params.slug);
        if (tenant === null) throw notFound('tenant');
        return document(request, tenant.slug, (onCut) => exportTenant(app, caller, tenant, { withHashes, onCut }));
      },
      EXPORT,
    )
    .post(
      '/api/admin/platform/tenants/import',
      async ({ caller, query, request }) => {
        requireDocument(request);
        const { slug, name, ids = 'keep' } = query;
        const { body } = request;
        check(NEW_NAMES, given({ slug, name }));
        if (body === null) throw invalidField('body', 'is missing');
        return mayTakeLong(app, request, async () =>
          created(await importTenant(app, caller, uploaded(steady(body)), { slug, name, ids })),
        );
      },
      IMPORT,
    )
    .post(
      '/api/admin/platform/tenants/:slug/clone',
      async ({ caller, params, body, request }) =>
        mayTakeLong(app, request, async () => created(await cloneTenant(app, caller, params.slug, body))),
      CLONE,
    );
}

const NEW_NAMES = Type.Object({ slug: Type.Optional(TenantSlug), name: Type.Optional(TenantName) });

/** 415 for a body of another type. */
function requireDocument(request: Request): void {
  requireIdentityEncoding(request);
  const type = (request.headers.get('content-type') ?? '').split(';')[0]?.trim().toLowerCase();
  if (type === 'application/x-ndjson' || type === 'application/jsonl') return;
  throw new ServiceError('UNSUPPORTED_MEDIA_TYPE', 'send the document as Content-Type: application/x-ndjson');
}

function document(
  request: Request,
  slug: string,
  open: (onCut: () => void) => Promise<ExportedTenant>,
): Promise<Response> {
  return download(request, { type: NDJSON, name: `${slug}.ndjson` }, async (onCut) => {
    const { body, cursor } = await open(onCut);
    addResponseHeaders(request, { 'Changes-Cursor': cursor });
    return body;
  });
}
