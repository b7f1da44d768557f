// The Swagger UI page and the script that starts it, without inline scripts or resources from other hosts. A key that a person
// enters stays in the page's memory: it is sent only to this service, and is gone when the page is closed. The page shows the
// document at /swagger/json: the general one, or the one for the key.
// Contract: decisions#api-document.

export const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tenant Data Service: API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/swagger/assets/swagger-ui.css">
<link rel="stylesheet" href="/swagger/assets/page.css">
</head>
<body>
<form id="own" autocomplete="off">
<label>Key or token <input id="key" type="password" size="36" autocomplete="off" spellcheck="false"></label>
<label>Tenant, for an operator <input id="tenant" size="16" autocomplete="off" spellcheck="false"></label>
<label>Only these entities <input id="entity" size="24" placeholder="companies, deals" autocomplete="off" spellcheck="false"></label>
<button id="show">Show what it may call</button>
<button id="general" type="button">Show the general document</button>
<output id="state" role="status"></output>
</form>
<div id="swagger-ui"></div>
<noscript>This page needs JavaScript. The document itself is at <a href="/swagger/json">/swagger/json</a>.</noscript>
<script src="/swagger/assets/swagger-ui-bundle.js"></script>
<script src="/swagger/assets/init.js"></script>
</body>
</html>
`;

/** The form for a key, above Swagger UI. */
export const PAGE_STYLE = `#own { display: flex; flex-wrap: wrap; gap: .5rem; align-items: end; max-width: 1460px; margin: 0 auto; padding: 1rem 20px; font: 14px sans-serif; color: #3b4151; }
#own label { display: grid; gap: .25rem; }
#own input, #own button { font: inherit; padding: .4rem .6rem; border: 1px solid #8a8f98; border-radius: 4px; background: #fff; color: inherit; }
#own output { flex-basis: 100%; }
@media (prefers-color-scheme: dark) { html.dark-mode #own { color: #e4e6e6; } }
`;

/** Calls go to the page's own host, which can differ from BASE_URL: the content security policy allows no other. */
export const INIT_SCRIPT = `(() => {
  const field = (id) => document.getElementById(id);
  // The header of each kind of credential, and its security scheme in the document.
  const KINDS = [
    [/^svc_adm_/, 'x-admin-key', 'adminKey'],
    [/^(svc_|eyJ|[0-9a-f]{8}-)/i, 'authorization', 'bearer'],
    [/./, 'x-admin-secret', 'adminSecret'],
  ];
  const headersFor = (key) => {
    const tenant = field('tenant').value.trim();
    const [, header] = KINDS.find(([form]) => form.test(key));
    return { [header]: header === 'authorization' ? 'Bearer ' + key : key, ...(tenant === '' ? {} : { 'x-tenant-id': tenant }) };
  };
  const show = async (key) => {
    const entity = field('entity').value.replaceAll(' ', '');
    const query = key === '' || entity === '' ? '' : '?entity=' + encodeURIComponent(entity);
    const headers = key === '' ? {} : headersFor(key);
    const answer = await fetch('/swagger/json' + query, { headers, cache: 'no-store' });
    const spec = await answer.json();
    if (!answer.ok) {
      field('state').value = answer.status + ': ' + spec.error.message;
      return;
    }
    field('state').value = key === '' ? 'The general document.' : 'What this credential may call.';
    const ui = SwaggerUIBundle({
      spec: { ...spec, servers: [{ url: location.origin }] },
      dom_id: '#swagger-ui',
      deepLinking: true,
      docExpansion: key === '' ? 'list' : 'none',
      defaultModelsExpandDepth: 0,
      displayRequestDuration: true,
      filter: true,
      persistAuthorization: false,
      validatorUrl: null,
      requestInterceptor: (request) => {
        if ('x-tenant-id' in headers) request.headers['X-Tenant-ID'] ??= headers['x-tenant-id'];
        return request;
      },
      onComplete: () => {
        if (key !== '') ui.preauthorizeApiKey(KINDS.find(([form]) => form.test(key))[2], key);
      },
    });
  };
  const shown = (key) => show(key).catch((error) => { field('state').value = String(error); });
  field('own').addEventListener('submit', (event) => {
    event.preventDefault();
    void shown(field('key').value.trim());
  });
  field('general').addEventListener('click', () => {
    field('key').value = '';
    void shown('');
  });
  void shown('');
})();
`;
