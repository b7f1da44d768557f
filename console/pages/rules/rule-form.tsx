// "New rule", and a rule being changed: when, on which condition, and what then.

import { useState } from 'react';
import type { Entity } from '../../api/answers.ts';
import { patch, post } from '../../api/call.ts';
import { useParams } from '../../app/params.ts';
import { ConditionField } from '../../filter/condition.tsx';
import { Combobox } from '../../parts/combobox.tsx';
import { Checkbox, Select, TextField } from '../../parts/field.tsx';
import { FormDialog } from '../../parts/form-dialog.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { ActionFields } from './action-fields.tsx';
import { ACTIONS, type Action, type ActionType, actionsOf, type Rule, TRIGGERS, type Trigger } from './rule.ts';

interface Props {
  rule?: Rule;
  entities: readonly Entity[];
  onSaved: () => Promise<unknown>;
  onClose: () => void;
}

const EMPTY: Omit<Rule, 'id'> = {
  name: '',
  entity: '',
  trigger: 'before_update',
  condition: null,
  action: { type: 'reject', message: '' },
  priority: 0,
  isActive: false,
};
const PLACED = ['name', 'entity', 'condition', 'priority', 'action.'];

export function RuleForm({ rule, entities, onSaved, onClose }: Props) {
  const { tenant } = useParams();
  const [draft, setDraft] = useState<Omit<Rule, 'id'>>(rule ?? { ...EMPTY, entity: entities[0]?.name ?? '' });
  const entity = entities.find(({ name }) => name === draft.entity);
  const set = (part: Partial<Rule>): void => setDraft({ ...draft, ...part });
  const setTrigger = (trigger: Trigger): void => {
    const [first = 'reject'] = actionsOf(trigger);
    set({ trigger, ...(actionsOf(trigger).includes(draft.action.type) ? {} : { action: { type: first } }) });
  };
  const save = async (): Promise<void> => {
    const { name, entity: of, trigger, condition, action, priority, isActive } = draft;
    const body = { name: name.trim(), trigger, condition: condition?.trim() || null, action, priority, isActive };
    if (rule === undefined) await post('/api/rules', { ...body, entity: of }, { tenant });
    else await patch(`/api/rules/${rule.id}`, body, { tenant });
    await onSaved();
    saySuccess({ title: `${body.name} was saved.` });
    onClose();
  };
  return (
    <FormDialog
      title={rule === undefined ? 'New rule' : `Rule ${rule.name}`}
      wide
      paths={PLACED}
      save={save}
      onClose={onClose}
    >
      {(problems) => (
        <>
          <TextField
            label="Name"
            value={draft.name}
            error={problems.name}
            onChange={(event) => set({ name: event.target.value })}
          />
          <div className="schema-pair">
            {rule === undefined && (
              <Combobox
                label="Entity"
                options={entities.map(({ name }) => ({ value: name, label: name }))}
                value={draft.entity === '' ? [] : [draft.entity]}
                error={problems.entity}
                onChange={([name = '']) => set({ entity: name, condition: null })}
              />
            )}
            <Select label="When" value={draft.trigger} onChange={(event) => setTrigger(event.target.value as Trigger)}>
              {Object.entries(TRIGGERS).map(([trigger, label]) => (
                <option key={trigger} value={trigger}>
                  {label}
                </option>
              ))}
            </Select>
          </div>
          {entity !== undefined && (
            <>
              <ConditionField
                label="Condition"
                hint="Empty: always"
                allowOld
                entity={entity}
                value={draft.condition ?? ''}
                error={problems.condition}
                onChange={(condition) => set({ condition })}
              />
              <Select
                label="Then"
                value={draft.action.type}
                error={problems['action.type']}
                onChange={(event) => set({ action: { type: event.target.value as ActionType } })}
              >
                {actionsOf(draft.trigger).map((type) => (
                  <option key={type} value={type}>
                    {ACTIONS[type]}
                  </option>
                ))}
              </Select>
              <ActionFields
                action={draft.action}
                {...{ entity, entities, problems }}
                onChange={(action: Action) => set({ action })}
              />
            </>
          )}
          <Checkbox
            label="On (leave it off until you have tried the rule on a record)"
            checked={draft.isActive}
            onChange={(event) => set({ isActive: event.target.checked })}
          />
        </>
      )}
    </FormDialog>
  );
}
