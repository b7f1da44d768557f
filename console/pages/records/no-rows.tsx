// In the grid's place when the list has no records: why, and the one thing to do.
import { useParams } from '../../app/params.ts';
import { Link } from '../../app/router.tsx';
import { Button } from '../../parts/button.tsx';
import { Empty } from '../../parts/states.tsx';
import type { SetLink } from './link.ts';

interface Props {
  name: string;
  /** By a filter or a search. */
  isNarrowed: boolean;
  setLink: SetLink;
  /** Why none can be made now; undefined when the role may not. */
  createBlock: string | null | undefined;
}

export function NoRows({ name, isNarrowed, setLink, createBlock }: Props) {
  const { tenant } = useParams();
  if (isNarrowed) {
    const clear = <Button onClick={() => setLink({ filters: null, search: null })}>Clear filter</Button>;
    return (
      <Empty icon="table-2" action={clear}>
        No {name} match this filter.
      </Empty>
    );
  }
  const actions = (
    <>
      {createBlock !== undefined && (
        <>
          <Button disabledReason={createBlock} onClick={() => setLink({ new: '1' })}>
            New record
          </Button>
          <Button disabledReason={createBlock} onClick={() => setLink({ transfer: 'import' })}>
            Import
          </Button>
        </>
      )}
      <Link className="button quiet" href={`/app/t/${tenant}/records/${name}/deleted`}>
        Deleted records
      </Link>
    </>
  );
  return (
    <Empty icon="table-2" action={actions}>
      No {name} yet.
    </Empty>
  );
}
