// A path that no page has.
import { Empty } from '../parts/states.tsx';
import { Link, startPath } from './router.tsx';

export function NotFound() {
  return (
    <div className="page">
      <h1 className="sr-only">Not found</h1>
      <Empty
        icon="circle-help"
        action={
          <Link className="button plain" href={startPath()}>
            Go to the start page
          </Link>
        }
      >
        There is no page at this address.
      </Empty>
    </div>
  );
}
