// A row filter as it applies to one person: `$currentUser` is replaced by what it stands for. The service then counts
// with it what that person sees, which it does not do for a filter that is not saved.
import type { Entity } from '../api/answers.ts';
import { type Operand, printTree, readTree, withOperands } from '../filter/tree.ts';

export interface Person {
  id: string;
  email: string;
  role: string;
}

/** Whether what the filter leaves visible depends on the person. */
export function dependsOnPerson(filter: string): boolean {
  return filter.includes('$currentUser');
}

/** The filter for a person of the role; null when it cannot be read. */
export function filterFor(
  filter: string,
  person: Person,
  role: string,
  entity: Entity,
  entities: readonly Entity[],
): string | null {
  const read = readTree(filter, entity, entities);
  if ('problem' in read || read.tree === null) return null;
  const values: Readonly<Record<string, string>> = {
    $currentUser: person.id,
    '$currentUser.id': person.id,
    '$currentUser.email': person.email,
    '$currentUser.role': role,
    '$currentUser.kind': 'user',
  };
  const known = (operand: Operand): Operand => {
    const text = operand.form === 'variable' ? values[operand.text] : undefined;
    return text === undefined ? operand : { text, form: 'quoted' };
  };
  return printTree(withOperands(read.tree, known));
}
