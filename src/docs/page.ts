// The Swagger UI page and the script that starts it, without inline scripts or resources from other hosts.
// Credentials that a person enters stay in the browser's storage.
// The page shows the document at /swagger/json.

export const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tenant Data Service: API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/swagger/assets/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<noscript>This page needs JavaScript. The document itself is at <a href="/swagger/json">/swagger/json</a>.</noscript>
<script src="/swagger/assets/swagger-ui-bundle.js"></script>
<script src="/swagger/assets/init.js"></script>
</body>
</html>
`;

/** Calls go to the page's own host, which can differ from BASE_URL: the content security policy allows no other. */
export const INIT_SCRIPT = `fetch('/swagger/json').then((answer) => answer.json()).then((spec) => SwaggerUIBundle({
  spec: { ...spec, servers: [{ url: location.origin }] },
  dom_id: '#swagger-ui',
  deepLinking: true,
  docExpansion: 'list',
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  filter: true,
  persistAuthorization: true,
  validatorUrl: null,
}));
`;
