// A dry run of a rule: on a record, with values as they would be changed to. Says whether the condition holds, and what
// the rule would do; nothing is changed.
import { useState } from 'react';
import type { Entity, Row } from '../../api/answers.ts';
import { get, post } from '../../api/call.ts';
import { useParams } from '../../app/params.ts';
import { RelationField } from '../../grid/relation-field.tsx';
import { Button } from '../../parts/button.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { TextAreaField } from '../../parts/field.tsx';
import { Notice } from '../../parts/states.tsx';
import { type Action, type Rule, sayAction } from './rule.ts';

interface Outcome {
  matches: boolean;
  action: Action | null;
}

export function TryRule({ rule, entity, onClose }: { rule: Rule; entity: Entity; onClose: () => void }) {
  const { tenant } = useParams();
  const [ids, setIds] = useState<string[]>([]);
  const [text, setText] = useState('');
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const [failure, setFailure] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const [id] = ids;
  const attempt = async (): Promise<void> => {
    setBusy(true);
    setFailure(null);
    setOutcome(null);
    try {
      const changes = text.trim() === '' ? {} : (JSON.parse(text) as object);
      const old = await get<Row>(`/api/entities/${entity.name}/records/${id}`, { tenant });
      setOutcome(
        await post<Outcome>(`/api/rules/${rule.id}/test`, { record: { ...old, ...changes }, old }, { tenant }),
      );
    } catch (cause) {
      setFailure(cause instanceof SyntaxError ? new Error('The changes are not valid JSON') : cause);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={`Try ${rule.name}`}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button
            kind="primary"
            icon="play"
            busy={busy}
            disabledReason={id === undefined ? 'Choose a record first' : null}
            onClick={attempt}
          >
            Try
          </Button>
        </>
      }
    >
      <div className="stack">
        <RelationField label="Record" tenant={tenant} entity={entity.name} value={ids} onChange={setIds} />
        {rule.trigger.endsWith('update') && (
          <TextAreaField
            label="Changed to"
            optional
            hint={'Values by field, as JSON: { "stage": "won" }'}
            className="input mono"
            spellCheck={false}
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        )}
        {failure !== null && <ErrorPanel title="Could not try the rule." error={failure} />}
        <div role="status">
          {outcome !== null && (
            <Notice>
              {outcome.action === null
                ? 'The condition is not met: the rule would do nothing.'
                : `The condition is met. The rule would ${sayAction(outcome.action)}`}
            </Notice>
          )}
        </div>
      </div>
    </Dialog>
  );
}
