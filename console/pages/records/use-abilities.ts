// What the person may do with the records of a list: undefined when the role may not, so that nothing offers it; else why
// it cannot be done now, or null.
import { seenAs } from '../../api/call.ts';
import { useStore } from '../../api/store.ts';
import { useParams } from '../../app/params.ts';
import { type Operation, useRights } from '../../app/rights.ts';
import { useWriteBlock } from '../../app/write-block.ts';

type Ability = string | null | undefined;

export interface Abilities {
  create: Ability;
  update: Ability;
  delete: Ability;
  /** Cells open for editing; without a connection too, as an edit waits, marked, until it is back. */
  canEdit: boolean;
}

/** Through a view alone nothing is written: its fields are guessed. */
export function useAbilities(entity: string, isViewOnly: boolean): Abilities {
  const { tenant } = useParams();
  const rights = useRights(tenant);
  const block = useWriteBlock();
  const role = useStore(seenAs);
  const of = (operation: Operation): Ability => (!isViewOnly && rights.may(operation, entity) ? block : undefined);
  const update = of('update');
  return { create: of('create'), update, delete: of('delete'), canEdit: update !== undefined && role === null };
}
