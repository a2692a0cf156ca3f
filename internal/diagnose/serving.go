package diagnose

import "fmt"

// Names of the checks that tell what the broker says of itself at any moment.
const (
	CheckServing = "serving"
	CheckLogDir  = "log_dir"
	CheckSpace   = "space"
	// CheckPartition tells of each partition by itself; what the broker says of them
	// together is left to /readyz.
	CheckPartition = "partition"
)

// mostBroken is how many broken partitions are named.
const mostBroken = 10

func servingChecks() []Check {
	return []Check{
		{Name: CheckServing, run: standing(CheckServing),
			Doc: "Whether clients are served, and what goes on where they are not: a start that recovers, a stop that drains."},
		{Name: CheckLogDir, run: checkLogDirs,
			Doc: "Whether each log directory was opened and takes records: after a failed write or sync its journal is opened anew."},
		{Name: CheckPartition, run: checkPartitions,
			Doc: "Partitions whose log is offline or missing: they can be neither written nor read."},
	}
}

func standing(check string) func(*Facts, *Report) {
	return func(f *Facts, r *Report) {
		for _, x := range f.Standing {
			if x.Check == check {
				x.Told = true
				r.findings = append(r.findings, x)
			}
		}
	}
}

func checkLogDirs(f *Facts, r *Report) {
	standing(CheckLogDir)(f, r)
	for _, d := range f.Dirs {
		r.see(fmt.Sprintf("log directory %s with %d partitions", d.Path, d.Logs))
	}
}

func checkPartitions(f *Facts, r *Report) {
	defer func() {
		for i := range r.findings {
			r.findings[i].Told = true
		}
	}()
	for i, p := range f.Partitions {
		if i == mostBroken {
			r.add(Bad, "partitions", fmt.Sprintf("%d more cannot be used", len(f.Partitions)-i), "see those above, and the broker's log")
			return
		}
		remedy := "the log names the file; see A damaged disk in docs/operations.md before anything is changed"
		if p.Retried {
			remedy = "remove the cause: the log is made by itself then, within half a minute"
		}
		r.add(Bad, "partition "+p.Partition, "it cannot be used: "+p.Why, remedy)
	}
}
