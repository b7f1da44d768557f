// Calls of MCP tools for tests, each in one request.

/** Calls a tool; resolves to the status, the headers and the text of the response's message. */
export async function callTool(
  url: string,
  name: string,
  input: object,
  headers: Record<string, string>,
): Promise<{ status: number; headers: Headers; text: string }> {
  const response = await fetch(`${url}/mcp?profile=advanced`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: input } }),
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
}
