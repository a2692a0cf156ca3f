package config

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// listed is an entity in the answer of list.
type listed struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

func list(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use: "list [topic|broker|group|logger|client-metrics]", Short: "List what has configs: all kinds, or one",
		Args:      app.Args(0, 1, "a kind"),
		ValidArgs: kinds(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && !slices.Contains(kinds(), args[0]) {
				return app.Usage("%q is not a kind: write %s, or nothing for all", args[0], strings.Join(kinds(), ", "))
			}
			cl, err := a.Requests(cmd.Context())
			if err != nil {
				return err
			}
			defer cl.Close()
			all, err := listAll(cmd.Context(), cl, args)
			if err != nil {
				return err
			}
			t := &output.Table{Columns: []string{"KIND", "NAME"}, Empty: "nothing has configs of that kind"}
			for _, e := range all {
				t.Add(e.Kind, e.Name)
			}
			return a.Print(all, t)
		},
	}
	c.Long = "list lists what has configs, or could have: topics, brokers and their loggers; groups if some of their configs are set; and\n" +
		"subscriptions to metrics of clients."
	c.Example = "  chronikctl config list client-metrics\n  chronikctl config list -o json"
	return c
}

// errOldList: before Kafka 4.1 a broker lists only subscriptions.
var errOldList = errors.New("the broker lists only client-metrics (ListConfigResources version 0)")

// listAll returns the entities of some kinds, of all without kinds, sorted by kind and name. Ids of
// brokers are sorted as numbers.
func listAll(ctx context.Context, to kmsg.Requestor, of []string) ([]listed, error) {
	req := kmsg.NewPtrListConfigResourcesRequest()
	for _, kind := range of {
		req.ResourceTypes = append(req.ResourceTypes, int8(kindOf(kind)))
	}
	const what = "list what has configs"
	resp, err := req.RequestWith(ctx, to)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err == nil && resp.Version == 0 && !slices.Equal(of, []string{clientKind}) {
		err = errOldList
	}
	if err != nil {
		return nil, app.Refused(what, err, "")
	}
	all := []listed{}
	for _, r := range resp.ConfigResources {
		if kind := nameOf(kmsg.ConfigResourceType(r.Type)); kind != "" {
			all = append(all, listed{kind, r.Name})
		}
	}
	sorts.Sort(all, func(x, y listed) int {
		m, err1 := strconv.Atoi(x.Name)
		n, err2 := strconv.Atoi(y.Name)
		if x.Kind != y.Kind || err1 != nil || err2 != nil {
			m, n = 0, 0
		}
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(m, n), cmp.Compare(x.Name, y.Name))
	})
	return all, nil
}

// kindOf returns the type of a kind's resources, unknown for another word.
func kindOf(kind string) kmsg.ConfigResourceType {
	switch kind {
	case topicKind:
		return kmsg.ConfigResourceTypeTopic
	case brokerKind:
		return kmsg.ConfigResourceTypeBroker
	case groupKind:
		return kmsg.ConfigResourceTypeGroupConfig
	case loggerKind:
		return kmsg.ConfigResourceTypeBrokerLogger
	case clientKind:
		return kmsg.ConfigResourceTypeClientMetrics
	}
	return kmsg.ConfigResourceTypeUnknown
}

// nameOf is the reverse of kindOf; "" for a type that this version does not know.
func nameOf(t kmsg.ConfigResourceType) string {
	for _, kind := range kinds() {
		if kindOf(kind) == t {
			return kind
		}
	}
	return ""
}
