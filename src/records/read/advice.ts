// Which indexes an entity lacks: the combinations of filters and sort keys whose lists were slow in the last day, each with the
// index that would serve it. The code that decides how lists are read (list-plan.ts) also judges each candidate, as if the entity
// had declared it.
// Failures: 404.
// Contract: decisions#advice.
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { allNames } from '../../entities/access-scope.ts';
import { catalogOf, entityFor } from '../../entities/catalog.ts';
import { indexViews } from '../../entities/declared-indexes.ts';
import { IndexFields } from '../../entities/definition.ts';
import type { DeclaredIndex, Entity } from '../../entities/field.ts';
import { isSystemKey, possibleIndexes } from '../../entities/indexes.ts';
import type { FieldRef } from '../../expression/ast.ts';
import { BOOLEAN } from '../../expression/value-types.ts';
import { nullable, oneOf } from '../../http/schemas.ts';
import { LIMITS } from '../../limits.ts';
import { giveWay } from '../../runtime/event-loop.ts';
import { type Combination, readCombination, shownFilters, shownSort } from './combination.ts';
import { filtersOf, gradeOf, planList } from './list-plan.ts';
import { orderIn } from './order.ts';
import { seenCombinations } from './slow-lists.ts';

const { perEntity } = LIMITS.advice;

export const AdviceSchema = Type.Object(
  {
    filters: nullable(Type.String({ description: 'a condition with `?` for values; null without filters' }), {
      examples: ['stage = ? AND amount > ?'],
    }),
    sort: Type.String({ description: 'as in the parameter `sort`', examples: ['-amount'] }),
    seen: Type.Integer({
      minimum: 1,
      description: `how often it took ${LIMITS.slowList.ms} ms or more`,
      examples: [412],
    }),
    p50Ms: Type.Integer({ minimum: 0, description: 'the median of those, within a tenth', examples: [180] }),
    index: nullable(
      Type.Object({
        fields: IndexFields,
        state: oneOf(['possible', 'building', 'full'], {
          description: `\`possible\`: to be declared; \`building\`: declared, and not ready yet; \`full\`: the entity has ${LIMITS.indexes.perEntity} others, one of which has to go`,
          examples: ['possible'],
        }),
      }),
      { description: 'null when no further index would read it in order' },
    ),
  },
  { $id: 'Advice' },
);
export type Advice = Static<typeof AdviceSchema>;

/** The combinations that have taken the most time come first. */
export async function adviseIndexes(app: App, caller: TenantCaller, entityName: string): Promise<Advice[]> {
  const entity = await entityFor(app, caller, entityName);
  const catalog = await catalogOf(app, caller.tenant);
  const names = allNames(catalog, caller, entity, new Date());
  const missing = new MissingIndexes(entity);
  const advice: Advice[] = [];
  for (const { combination: text, seen, p50Ms } of await seenCombinations(app, entity)) {
    if (advice.length === perEntity) break;
    await giveWay();
    const combination = readCombination(text, catalog, entity, names);
    // A count made under other indexes says nothing about the lists of today.
    if (combination === null || gradeWith(entity, [], combination) !== combination.grade) continue;
    const index = missing.indexFor(combination);
    advice.push({ filters: shownFilters(combination), sort: shownSort(combination), seen, p50Ms, index });
  }
  return advice;
}

/** How well indexes would serve the lists of a combination, if the entity also had `more`. */
function gradeWith(entity: Entity, more: readonly DeclaredIndex[], { condition, keys }: Combination): number {
  return gradeOf(
    planList(more.length === 0 ? entity : { ...entity, indexes: [...entity.indexes, ...more] }, condition, keys),
  );
}

interface Suggestion {
  index: DeclaredIndex;
  state: 'possible' | 'building' | 'full';
}

/** The indexes that an entity's lists lack. One that serves several combinations is suggested for all of them. */
class MissingIndexes {
  readonly #suggested: Suggestion[];
  #places: number;

  constructor(private readonly entity: Entity) {
    const { indexes } = entity;
    const building = indexes.filter(({ isBuilding }) => isBuilding === true);
    this.#suggested = building.map(({ columns }) => ({ index: { columns }, state: 'building' }));
    this.#places = LIMITS.indexes.perEntity - indexes.length;
  }

  indexFor(combination: Combination): Advice['index'] {
    const { grade } = combination;
    const graded = (index: DeclaredIndex): number => gradeWith(this.entity, [index], combination);
    const [best] = candidates(this.entity, combination)
      .map((index) => ({ index, grade: graded(index) }))
      .sort((a, b) => b.grade - a.grade);
    if (best === undefined || best.grade <= grade) return null;
    const isAsGood = ({ index }: Suggestion): boolean =>
      gradeOf(planList(withOnlyIndex(this.entity, index), combination.condition, combination.keys)) >= best.grade &&
      graded(index) >= best.grade;
    const known = this.#suggested.find(isAsGood);
    const found = known ?? this.#suggest(best.index);
    const [view] = indexViews({ ...this.entity, indexes: [found.index] }, this.entity.fields);
    return view === undefined ? null : { fields: view.fields, state: found.state };
  }

  #suggest(index: DeclaredIndex): Suggestion {
    const suggestion: Suggestion = { index, state: this.#places > 0 ? 'possible' : 'full' };
    this.#places--;
    this.#suggested.push(suggestion);
    return suggestion;
  }
}

/**
 * The entity with only this index and only its fields: with many candidates, this finds out quickly that an index does not
 * serve.
 */
function withOnlyIndex(entity: Entity, index: DeclaredIndex): Entity {
  const fields = entity.fields.filter(({ id }) => index.columns.some(({ field }) => field === id));
  return { ...entity, fields, indexes: [index] };
}

type Column = DeclaredIndex['columns'][number];

/** Candidates: indexes of the fields that the filters fix, followed by the sort keys. The caller chooses the best fit. */
function candidates(entity: Entity, { condition, keys }: Combination): DeclaredIndex[] {
  const { fixed } = filtersOf(condition);
  const findsOne = fixed.has('id') || entity.fields.some(({ unique, slot }) => unique && fixed.has(slot));
  if (findsOne) return [];
  const { deciding } = orderIn(entity, keys);
  const indexes = [deciding, keys].flatMap((sorted) => {
    const tail = sorted.map(({ field, isDescending }) => columnOf(entity, field, isDescending));
    if (!tail.every((column) => column !== null)) return [];
    const head = fixedColumns(entity, fixed).filter(({ field }) => !tail.some((column) => column.field === field));
    const places = LIMITS.indexes.fieldsPerIndex - tail.length;
    const columns = [...head.slice(0, Math.max(0, places)), ...tail];
    return places < 0 || columns.length === 0 ? [] : [{ columns }];
  });
  return possibleIndexes(entity.fields, indexes);
}

/** The fields that filters fix. Booleans come last, since there may not be room for all. */
function fixedColumns(entity: Entity, fixed: ReadonlySet<string>): Column[] {
  const isBoolean = (name: string): boolean =>
    entity.fields.some(({ slot, ref }) => slot === name && ref.value === BOOLEAN);
  return [...fixed]
    .sort((a, b) => Number(isBoolean(a)) - Number(isBoolean(b)))
    .flatMap((name) => columnNamed(entity, name, false) ?? []);
}

function columnOf(entity: Entity, field: FieldRef | null, isDescending: boolean): Column | null {
  return columnNamed(entity, field?.slot ?? field?.key ?? '', isDescending);
}

/** A column of an index by slot or system key; null for what an index does not take. */
function columnNamed({ fields }: Entity, name: string, isDescending: boolean): Column | null {
  const field = isSystemKey(name) ? name : fields.find(({ slot }) => slot === name)?.id;
  return field === undefined ? null : { field, isDescending };
}
