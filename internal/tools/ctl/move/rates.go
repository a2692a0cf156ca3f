package move

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// Rates are dynamic configs of brokers that bound copies while a command moves. At the end, those
// that an operator had set count again. Its fields must not change after Set.
type Rates struct {
	Client *kgo.Client
	Names  []string
	Value  string // of all names, while the command moves
	What   string // for errors: what the command does with them
	// former are the values before, by broker and name, without those that are not set.
	former map[int32]map[string]string
}

// Note remembers the values of brokers that run, before the first Set. One that equals Value is
// taken for that of a run that was interrupted.
func (r *Rates) Note(ctx context.Context, ids []int32) error {
	now, err := r.read(ctx, ids)
	if err != nil {
		return err
	}
	for _, set := range now {
		maps.DeleteFunc(set, func(_, v string) bool { return v == r.Value })
	}
	r.former = now
	return nil
}

// Set sets the rates. It asks a broker that runs, as the others may be down.
func (r *Rates) Set(ctx context.Context, runs int32, ids []int32) error {
	return AlterBrokers(ctx, r.Client, runs, r.What, ids, r.changes(func(string) string { return r.Value })...)
}

// End restores the values that Note remembered, and removes those that Set added, of the brokers
// ids. Of those that run, it leaves what another command has set meanwhile, with a note.
func (r *Rates) End(ctx context.Context, runs int32, ids, running []int32, note func(format string, args ...any)) error {
	now, err := r.read(ctx, running)
	if err != nil {
		return err
	}
	notes := map[string][]int32{}
	for _, id := range ids {
		former, set := r.former[id], now[id]
		list := r.changes(func(name string) string { return former[name] })
		list = slices.DeleteFunc(list, func(c kmsg.IncrementalAlterConfigsRequestResourceConfig) (others bool) {
			about := ""
			if v := former[c.Name]; v != "" {
				about = fmt.Sprintf("%s is %s again, as before", c.Name, v)
			}
			if v := set[c.Name]; v != "" && v != r.Value {
				others, about = true, fmt.Sprintf("%s is %s, as another command has set it", c.Name, v)
			}
			if about != "" {
				notes[about] = append(notes[about], id)
			}
			return others
		})
		if len(list) == 0 {
			continue
		}
		if err := AlterBrokers(ctx, r.Client, runs, r.What, []int32{id}, list...); err != nil {
			return err
		}
	}
	for _, about := range slices.Sorted(maps.Keys(notes)) {
		note("%s (broker %s)", about, text.Numbers(notes[about]))
	}
	return nil
}

// Remove removes the rates, whatever they are: those that a run has left that was interrupted.
func (r *Rates) Remove(ctx context.Context, runs int32, ids []int32) error {
	return AlterBrokers(ctx, r.Client, runs, r.What, ids, r.changes(func(string) string { return "" })...)
}

// Former returns the commands that restore what Note remembered, empty if it was nothing.
func (r *Rates) Former() (commands []string) {
	for _, id := range slices.Sorted(maps.Keys(r.former)) {
		var pairs []string
		for _, name := range r.Names {
			if v := r.former[id][name]; v != "" {
				pairs = append(pairs, name+"="+v)
			}
		}
		if len(pairs) > 0 {
			commands = append(commands, fmt.Sprintf("chronikctl config set broker %d %s", id, strings.Join(pairs, " ")))
		}
	}
	return commands
}

// changes returns changes of all names to values, of which an empty one removes the config.
func (r *Rates) changes(value func(name string) string) (list []kmsg.IncrementalAlterConfigsRequestResourceConfig) {
	for _, name := range r.Names {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op = name, kmsg.IncrementalAlterConfigOpDelete
		if v := value(name); v != "" {
			c.Op, c.Value = kmsg.IncrementalAlterConfigOpSet, &v
		}
		list = append(list, c)
	}
	return list
}

// read returns the rates of the dynamic configs of brokers that run.
func (r *Rates) read(ctx context.Context, ids []int32) (map[int32]map[string]string, error) {
	now := map[int32]map[string]string{}
	if len(ids) == 0 {
		return now, nil
	}
	all, err := kadm.NewClient(r.Client).DescribeBrokerConfigs(ctx, ids...)
	if err != nil {
		return nil, app.Refused("read "+strings.Join(r.Names, " and "), app.BrokerError(err), "")
	}
	for _, x := range all {
		id, err := strconv.ParseInt(x.Name, 10, 32)
		if x.Err != nil || err != nil {
			return nil, app.Refused("read "+strings.Join(r.Names, " and "), x.Err, x.ErrMessage)
		}
		set := map[string]string{}
		for _, kv := range x.Configs {
			if slices.Contains(r.Names, kv.Key) && kv.Source == kmsg.ConfigSourceDynamicBrokerConfig && kv.MaybeValue() != "" {
				set[kv.Key] = kv.MaybeValue()
			}
		}
		now[int32(id)] = set
	}
	return now, nil
}
