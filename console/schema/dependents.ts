// What uses a field: conditions of views, row filters and field lists of roles, rules; for the table of fields. What a change
// breaks is the service's to say, see dry-run.tsx.
import { useQuery } from '@tanstack/react-query';
import type { Entity } from '../api/answers.ts';
import { get } from '../api/call.ts';
import { keyOf } from '../api/queries.ts';
import { useParams } from '../app/params.ts';

interface View {
  slug: string;
  entitySlug: string;
  filterDsl: { validate: { condition: string }[] };
}
interface Rule {
  name: string;
  entity: string;
  condition: string | null;
  action: unknown;
}
interface Role {
  name: string;
  entities?: Record<string, { fields?: string[]; excludeFields?: string[]; rowFilter?: string }>;
}

export interface Dependent {
  kind: 'view' | 'role' | 'rule';
  name: string;
}

/** Undefined while it loads. */
export type DependentsOf = (key: string) => Dependent[];

export function useDependents(entity: Entity | undefined): { of: DependentsOf | undefined; error: unknown } {
  const { tenant } = useParams();
  const { data, error } = useQuery({
    queryKey: keyOf(tenant, 'schema-dependents'),
    queryFn: async ({ signal }) => {
      const read = <T>(path: string): Promise<T[]> => get<T[]>(path, { tenant, signal });
      const [views, rules, roles] = await Promise.all([
        read<View>('/api/views'),
        read<Rule>('/api/rules'),
        read<Role>('/api/roles'),
      ]);
      return { views, rules, roles };
    },
    staleTime: 0,
  });
  if (data === undefined || entity === undefined) return { of: undefined, error };
  return { of: (key) => dependentsOf(data, entity.name, key), error };
}

function dependentsOf(
  { views, rules, roles }: { views: View[]; rules: Rule[]; roles: Role[] },
  entity: string,
  key: string,
): Dependent[] {
  const own = new RegExp(`(?<!\\w)${key}(?!\\w)`);
  const related = new RegExp(`\\.${key}(?!\\w)`);
  const uses = (text: string, of: string): boolean => (of === entity ? own : related).test(text);
  const found: Dependent[] = [];
  for (const { slug, entitySlug, filterDsl } of views)
    if (filterDsl.validate.some(({ condition }) => uses(condition, entitySlug)))
      found.push({ kind: 'view', name: slug });
  for (const { name, entity: of, condition, action } of rules)
    if (uses(`${condition ?? ''} ${JSON.stringify(action)}`, of)) found.push({ kind: 'rule', name });
  for (const { name, entities = {} } of roles) {
    const filters = Object.entries(entities).some(([of, { rowFilter }]) => rowFilter != null && uses(rowFilter, of));
    const { fields = [], excludeFields = [] } = entities[entity] ?? {};
    if (filters || [...fields, ...excludeFields].includes(key)) found.push({ kind: 'role', name });
  }
  return found;
}

/** "2 views, 1 role". */
export function sayDependents(found: readonly Dependent[]): string {
  return (['view', 'role', 'rule'] as const)
    .map((kind) => [kind, found.filter((one) => one.kind === kind).length] as const)
    .filter(([, count]) => count > 0)
    .map(([kind, count]) => `${count} ${kind}${count === 1 ? '' : 's'}`)
    .join(', ');
}

/** "view open-deals, role sales". */
export function nameDependents(found: readonly Dependent[]): string {
  return found.map(({ kind, name }) => `${kind} ${name}`).join(', ');
}
