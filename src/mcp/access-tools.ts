// The MCP tool for tenant admins that explains decisions on access. It calls the operation of REST.
// Failures: 400 with every problem, 403.
// Contract: decisions#explanations.
import { ExplanationSchema, explain, Question } from '../explain/explain.ts';
import { defineTool, READS, type Tool, toolInput } from './tool.ts';

export const ACCESS_TOOLS: readonly Tool[] = [
  defineTool({
    name: 'explain_access',
    title: 'Explain access',
    description: `Says whether a credential (kind and id) or a role may do something with an entity or one record of it, over rest,
mcp, changes, sse, websocket or webhook, what decides that, and what to change.`,
    access: 'admin',
    hints: READS,
    input: toolInput(Question.properties),
    output: ExplanationSchema,
    run: async ({ app, caller }, { tenantSlug: _, ...question }) => explain(app, caller, question),
  }),
];
