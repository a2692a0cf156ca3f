// Package cluster implements the commands about brokers: chronikctl cluster, broker,
// api-versions, profile and debug.
//
// health.go finds what is wrong, by the checks in the health_ files. profile.go explains what an
// acknowledgement guarantees: the promises come from pkg/durability, the measured sizes and times
// from the admin port. bundle.go writes one file with everything that a bug report needs: it
// collects the output of chronikctl's own commands and of the admin port concurrently
// (bundle_members.go), masks secrets (bundle_redact.go), and adds a manifest (bundle_archive.go).
// The commands change nothing in the cluster, except cluster feature and those of broker.
//
// The package knows no component of a broker, only what requests and the admin port show of it.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// New returns the command cluster.
func New(a *app.App) *cobra.Command {
	c := app.Parent("cluster", "Describe the cluster, and find problems", describe(a), healthCommand(a), featureCommand(a))
	cli.Instead(c, map[string]string{
		"info":    "cluster describe shows the cluster",
		"status":  "cluster health lists what is wrong",
		"brokers": "chronikctl broker list shows the brokers",
		"members": "chronikctl broker list shows the brokers",
		"voters":  "cluster describe shows the voters",
		"quorum":  "cluster describe shows the voters",
	})
	return c
}

// overview is the answer of cluster describe.
type overview struct {
	ID         string           `json:"clusterId"`
	Controller int32            `json:"controller"` // -1 for none
	Brokers    []broker         `json:"brokers"`
	Topics     int              `json:"topics"` // without internal topics
	Partitions int              `json:"partitions"`
	Features   map[string]int16 `json:"features"` // finalized levels
	Quorum     *quorum          `json:"metadataQuorum,omitempty"`
}

func describe(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "describe", Short: "Show id, controller, brokers, features, and the number of topics", Args: app.Args(0, 0, "no argument"),
		Example: "  chronikctl cluster describe",
		RunE: a.Both(func(ctx context.Context, adm *kadm.Client, cl *kgo.Client, _ []string) error {
			m, err := adm.Metadata(ctx)
			if err != nil {
				return app.Refused("describe the cluster", app.BrokerError(err), "")
			}
			levels, err := features(ctx, adm)
			if err != nil {
				return app.Refused("describe the cluster", app.BrokerError(err), "")
			}
			o := overview{ID: m.Cluster, Controller: m.Controller, Features: levels}
			for _, t := range m.Topics {
				if !t.IsInternal {
					o.Topics++
					o.Partitions += len(t.Partitions)
				}
			}
			if o.Brokers, o.Quorum, err = ofCluster(ctx, a, cl, m); err != nil {
				remedy := ""
				if errors.Is(err, kerr.NotLeaderForPartition) {
					remedy = "the broker knows no metadata leader; chronikctl cluster health shows the cause"
				}
				err = app.Refused("describe the metadata quorum", app.Needs(app.BrokerError(err), app.OnCluster("describe")), remedy)
			}
			if o.Brokers == nil {
				return err
			}
			t := brokerTable(o.Brokers)
			t.Title = fmt.Sprintf("cluster %s  controller %d  %s  %s", o.ID, o.Controller, text.Count(o.Topics, "topic"),
				text.Count(o.Partitions, "partition"))
			for _, name := range slices.Sorted(maps.Keys(o.Features)) {
				t.Title += fmt.Sprintf("\nfeature %s=%d", name, o.Features[name])
			}
			return errors.Join(a.Print(o, o.Quorum.tables(t)...), err)
		}),
	}
}

// broker is a broker of the cluster.
type broker struct {
	ID         int32  `json:"id"`
	Address    string `json:"address"` // the advertised address
	Rack       string `json:"rack,omitempty"`
	Controller bool   `json:"controller"`
	Leaders    int    `json:"leaders"` // partitions that it leads
	Replicas   int    `json:"replicas"`
	// State is the state in a cluster: active, fenced, and if the admin port answers also starting,
	// draining or drained; "lost voter" follows for a broker that waits for its vote.
	State string `json:"state,omitempty"`

	reachable bool // clients can use it
}

func brokers(m kadm.Metadata) []broker {
	all := []broker{}
	for _, d := range m.Brokers {
		b := broker{ID: d.NodeID, Address: net.JoinHostPort(d.Host, strconv.Itoa(int(d.Port))), Controller: d.NodeID == m.Controller,
			reachable: true}
		if d.Rack != nil {
			b.Rack = *d.Rack
		}
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				if p.Leader == b.ID {
					b.Leaders++
				}
				if slices.Contains(p.Replicas, b.ID) {
					b.Replicas++
				}
			}
		}
		all = append(all, b)
	}
	return all
}

func brokerTable(all []broker) *output.Table {
	t := &output.Table{Columns: []string{"BROKER#", "ADDRESS", "RACK", "CONTROLLER", "LEADS#", "REPLICAS#"}}
	states := slices.ContainsFunc(all, func(b broker) bool { return b.State != "" })
	if states {
		t.Columns = append(t.Columns, "STATE")
	}
	for _, b := range all {
		row := []any{b.ID, b.Address, b.Rack, yes(b.Controller), b.Leaders, b.Replicas}
		if states {
			row = append(row, b.State)
		}
		t.Add(row...)
	}
	return t
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}
