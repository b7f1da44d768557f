// The secrets that sign webhooks: of a subscription whose secret was replaced, the one before too, until its
// time is over.
// Contract: decisions#webhooks-for-others.
import { type Sql, sql } from '../runtime/sql.ts';

/** The secrets that sign a subscription's deliveries now, the newest first; `subscription` is its table's alias. */
export function signingSecrets(subscription: Sql): Sql {
  const { secret, previous, until } = {
    secret: sql`${subscription}.secret`,
    previous: sql`${subscription}.secret_previous`,
    until: sql`${subscription}.secret_previous_until`,
  };
  return sql`case when ${secret} is not null then
    array_remove(array[${secret}, case when ${until} > now() then ${previous} end], null) end`;
}
