// The work that goes on in the background, in the top bar: how far it is, and the way to it. Read out at each quarter.
import { useStore } from '../api/store.ts';
import { Icon } from '../parts/icon.tsx';
import { type Job, jobs } from './jobs.ts';
import { Link } from './router.tsx';

export function JobChips() {
  const all = useStore(jobs);
  const quarters = all.map(({ label, share }) =>
    share === null ? label : `${label}: ${Math.floor(share * 4) * 25} %`,
  );
  return (
    <span className="jobs">
      {all.map((job) => (
        <Link key={job.key} className="job" href={job.href} title={said(job)}>
          <Icon name={job.share === null ? 'check' : 'upload'} />
          <span className="job-label ellipsis">{job.label}</span>
          {job.share !== null && <span className="num">{Math.floor(job.share * 100)} %</span>}
        </Link>
      ))}
      <span role="status" className="sr-only">
        {quarters.join('. ')}
      </span>
    </span>
  );
}

function said({ label, share }: Job): string {
  return share === null ? label : `${label}: ${Math.floor(share * 100)} %`;
}
