// The secrets that sign webhooks. A subscription whose secret was replaced also has the previous secret, until that expires.
// Until then, deliveries are signed with both.
// Contract: decisions#webhooks-for-others.
import { type Sql, sql } from '../runtime/sql.ts';

/** The current secrets of a subscription, the newest first; `subscription` is its table's alias. */
export function signingSecrets(subscription: Sql): Sql {
  const { secret, previous, until } = {
    secret: sql`${subscription}.secret`,
    previous: sql`${subscription}.secret_previous`,
    until: sql`${subscription}.secret_previous_until`,
  };
  return sql`case when ${secret} is not null then
    array_remove(array[${secret}, case when ${until} > now() then ${previous} end], null) end`;
}
