// MCP tools for webhook subscriptions, in the profile `advanced` only. A webhook carries whole records, so all of them need a
// tenant admin, as over REST. Failures: the failures of the operations.
// Contract: interface#mcp, interface#subscription.
import { Type } from '@sinclair/typebox';
import { sized } from '../http/bounded-response.ts';
import { Deleted } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { EventType, SubscriptionSchema } from '../webhooks/subscriptions/shapes.ts';
import { createSubscription, deleteSubscription, listSubscriptions } from '../webhooks/subscriptions/subscriptions.ts';
import { ADDS, defineTool, EntityName, READS, REPLACES, type Tool, toolInput } from './tool.ts';

const { urlMax, secretMax, descriptionMax } = LIMITS.webhook;

export const WEBHOOK_TOOLS: readonly Tool[] = [
  defineTool({
    name: 'create_webhook',
    title: 'Create a webhook',
    description: 'Sends a POST request to a URL for every later change to an entity’s records.',
    access: 'admin',
    hints: { ...ADDS, openWorldHint: true },
    input: toolInput({
      entity_name: EntityName,
      event_types: Type.Array(EventType, { minItems: 1, description: 'The event types to send.' }),
      url: Type.String({ maxLength: urlMax, description: 'The receiver: http or https, not a private address.' }),
      secret: Type.Optional(
        Type.String({ maxLength: secretMax, description: 'The key that signs deliveries. Sensitive.' }),
      ),
      description: Type.Optional(Type.String({ maxLength: descriptionMax })),
    }),
    output: SubscriptionSchema,
    run: async ({ app, caller }, { tenantSlug: _, ...input }) => createSubscription(app, caller, input),
  }),
  defineTool({
    name: 'list_webhooks',
    title: 'List webhooks',
    description: 'Lists the webhook subscriptions of the tenant, or of one entity, without their secrets.',
    access: 'admin',
    hints: READS,
    input: toolInput({ entity_name: Type.Optional(EntityName) }),
    output: Type.Object({ webhooks: Type.Array(SubscriptionSchema) }),
    run: async ({ app, caller }, { entity_name: name }) =>
      sized({ webhooks: await listSubscriptions(app, caller, name) }, LIMITS.response.largeFrom),
  }),
  defineTool({
    name: 'delete_webhook',
    title: 'Delete a webhook',
    description: 'Deletes a webhook subscription and its delivery log.',
    access: 'admin',
    hints: REPLACES,
    input: toolInput({ webhook_id: Type.String({ description: 'The id of the subscription.' }) }),
    output: Deleted,
    run: async ({ app, caller }, { webhook_id: id }) => {
      await deleteSubscription(app, caller, id);
      return { id: id.toLowerCase(), deleted: true };
    },
  }),
];
