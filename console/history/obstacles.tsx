// Why a version was not restored, as the API says it: everything that is in the way, by field; a race that was lost.
import type { Entity } from '../api/answers.ts';
import { ApiError } from '../api/errors.ts';
import { ErrorPanel } from '../parts/error-panel.tsx';
import { labelOf } from './changes.tsx';

export function Obstacles({ entity, error }: { entity: Entity; error: unknown }) {
  const details = error instanceof ApiError && error.status === 409 ? error.details : [];
  const isRace = error instanceof ApiError && error.status === 412;
  return (
    <>
      <ErrorPanel
        title={isRace ? 'Nothing was restored: somebody changed the record meanwhile.' : 'Nothing was restored.'}
        error={error}
      />
      {details.length > 1 && (
        <ul className="history-obstacles" aria-label="In the way">
          {details.map(({ path, message }) => (
            <li key={`${path} ${message}`}>
              {path !== 'request' && <strong>{labelOf(entity, path.replace(/^(body|data)\./, ''))} </strong>}
              {message}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
