package config

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/parse"
)

func set(a *app.App) *cobra.Command {
	var dryRun bool
	c := command(a, "set topic|broker|group|logger|client-metrics NAME KEY=VALUE...", "Set configs", 1, " and KEY=VALUE",
		func(cmd *cobra.Command, e Entity, args []string) error {
			return Change(cmd.Context(), a, []Entity{e}, Edit{Set: args, DryRun: dryRun})
		})
	c.Long = "set sets configs of a topic, broker, group, logger or subscription to metrics of clients, atomically. If the change\n" +
		"makes records fall out of logs at once, it counts them and asks; --yes confirms, --dry-run only lists. It also asks if\n" +
		"retention.ms has no unit and was probably meant in days or seconds, and if brokers have as many connections as max.connections\n" +
		"allows, or more."
	c.Example = "  chronikctl config set topic orders retention.ms=7d segment.bytes=512MiB\n" +
		"  chronikctl config set broker default log.retention.ms=1d\n" +
		"  chronikctl config set group billing consumer.session.timeout.ms=1m\n  chronikctl config set logger 1 root=DEBUG\n" +
		"  chronikctl config set client-metrics lag metrics=org.apache.kafka.consumer.fetch.manager. interval.ms=30s"
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only check and list what would be done")
	return c
}

func unset(a *app.App) *cobra.Command {
	var dryRun bool
	c := command(a, "unset topic|broker|group|logger|client-metrics NAME KEY...", "Reset configs to their defaults", 1, " and KEY",
		func(cmd *cobra.Command, e Entity, keys []string) error {
			return Change(cmd.Context(), a, []Entity{e}, Edit{Unset: keys, DryRun: dryRun})
		})
	c.Long = "unset resets configs to their defaults. If records fall out of logs at once because of the defaults, it counts them and asks, as config\n" +
		"set does."
	c.Example = "  chronikctl config unset topic orders retention.ms segment.bytes"
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only check and list what would be done")
	return c
}

// Edit is a change of the configs of entities.
type Edit struct {
	Set    []string // key=value, with or without a unit
	Flag   string   // the flag that has them, for errors; empty for arguments
	Unset  []string // keys
	DryRun bool     // only check and list what would be done

	values  map[string]string // Set in the units of the configs
	creates bool              // the topics do not exist yet
}

// read checks the texts and sets values.
func (d *Edit) read() error {
	var err error
	if d.values, err = Parse(d.Set); err != nil {
		return app.Usage("%s%w", d.Flag, err)
	}
	for _, k := range d.Unset {
		if strings.Contains(k, "=") {
			return app.Usage("%q is not the name of a config: unset takes no value", k)
		}
		if _, both := d.values[k]; both {
			return app.Usage("%s cannot be both set and unset", k)
		}
	}
	return nil
}

// Parse parses configs, with or without units, as an entity gets them.
func Parse(list []string) (map[string]string, error) {
	values, err := parse.Configs(list)
	for _, s := range list {
		if key, written, _ := strings.Cut(s, "="); err == nil && values[key] != written { // it had a unit
			values[key] = configdef.Meant(key, values[key])
		}
	}
	return values, err
}

// String formats the change for people.
func (d *Edit) String() string {
	var parts []string
	if len(d.Set) > 0 {
		parts = append(parts, "set "+strings.Join(d.Set, " "))
	}
	if len(d.Unset) > 0 {
		parts = append(parts, "unset "+strings.Join(d.Unset, " "))
	}
	return strings.Join(parts, " and ")
}

// Change changes configs, atomically for each entity. Every change of a config by chronikctl passes
// through it: if records fall out of logs at once, it counts them and asks.
func Change(ctx context.Context, a *app.App, entities []Entity, d Edit) error {
	if err := d.read(); err != nil {
		return err
	}
	cl, err := a.Requests(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	var out app.Outcomes
	losses := map[Entity]*loss{}
	if (d.touchesRetention() || d.values[maxConnections] != "") && (d.DryRun || a.Asks()) {
		var valid []Entity // the others are refused before anybody is asked about them
		for _, e := range entities {
			if alter(ctx, cl, e, &d, true, &out) {
				valid = append(valid, e)
				losses[e] = d.loses(ctx, cl, e)
			}
		}
		entities = valid
		if err := d.ask(a, entities, losses); err != nil {
			return errors.Join(err, out.Err())
		}
	}
	var topics, brokers []string // that were changed
	for _, e := range entities {
		if !alter(ctx, cl, e, &d, d.DryRun, &out) {
			continue
		}
		if result := losses[e].result(); d.DryRun {
			out.Done(e.String(), "would be changed%s", result)
		} else {
			out.Done(e.String(), "changed")
		}
		if e.Kind == kmsg.ConfigResourceTypeTopic {
			topics = append(topics, e.Name)
		}
		if e.Kind == kmsg.ConfigResourceTypeBroker {
			brokers = append(brokers, e.String())
		}
	}
	warnBrokers(ctx, a, kadm.NewClient(cl), brokers, d.values)
	Warn(ctx, a, kadm.NewClient(cl), topics, d.values)
	return a.PrintOutcomes(&out)
}

// alter requests the change of one entity, or only its check. It reports whether the broker agreed;
// otherwise it adds the failure to out.
func alter(ctx context.Context, cl *kgo.Client, e Entity, d *Edit, validate bool, out *app.Outcomes) bool {
	if err := checkKeys(ctx, cl, e, d.Unset); err != nil {
		out.Failed(e.String(), fmt.Errorf("change configs of %v: %w", e, err))
		return false
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = validate
	req.Resources = append(req.Resources, resource(e, d.values, d.Unset))
	resp, err := req.RequestWith(ctx, cl)
	message := ""
	if err == nil && len(resp.Resources) == 1 {
		err, message = kerr.ErrorForCode(resp.Resources[0].ErrorCode), app.OrEmpty(resp.Resources[0].ErrorMessage)
	} else if err == nil {
		err = kerr.UnknownServerError
	}
	if (errors.Is(err, kerr.InvalidConfig) || errors.Is(err, kerr.InvalidRequest)) && strings.HasPrefix(message, "Unknown ") {
		if better := checkKeys(ctx, cl, e, slices.Sorted(maps.Keys(d.values))); better != nil {
			out.Failed(e.String(), fmt.Errorf("change configs of %v: %w", e, better))
			return false
		}
	}
	if live := changeable(slices.Sorted(maps.Keys(d.values))); err != nil && live != "" && strings.HasPrefix(message, app.Fixed) {
		out.Failed(e.String(), app.RefusedFor("change configs of "+e.String(), err, message,
			"set "+live+" instead, which takes effect while brokers run"))
		return false
	}
	if err != nil {
		out.Refused(e.String(), "change configs of "+e.String(), app.Needs(err, e.right("alter-configs")), message)
		return false
	}
	return true
}

// changeable returns the config of brokers that changes while they run and has the same meaning as
// one of these in another unit, such as log.retention.ms for log.retention.hours; "" for none.
func changeable(keys []string) string {
	for _, t := range configdef.New(configdef.Options{}).Topics() {
		for i, s := range t.Synonyms {
			if i > 0 && slices.Contains(keys, s.Name) {
				return t.Synonyms[0].Name
			}
		}
	}
	return ""
}

// Unknown returns an error for the first key that topics do not have, with the closest one. It
// looks up the configs of an existing topic. It returns nil if there is none, or if topics have all
// keys.
func Unknown(ctx context.Context, adm *kadm.Client, configs map[string]string) error {
	topics, err := adm.ListTopicsWithInternal(ctx)
	if err != nil || len(topics) == 0 {
		return nil
	}
	described, err := adm.DescribeTopicConfigs(ctx, topics.Names()[0])
	if err != nil || len(described) == 0 {
		return nil
	}
	var names []string
	synonyms := map[string]string{}
	for _, c := range described[0].Configs {
		names = append(names, c.Key)
		for _, s := range c.Synonyms {
			synonyms[s.Key] = c.Key
		}
	}
	for _, key := range slices.Sorted(maps.Keys(configs)) {
		if len(names) > 0 && !slices.Contains(names, key) {
			return fmt.Errorf("topics have no config %q; %s", key, suggest(key, names, synonyms))
		}
	}
	return nil
}

// checkKeys returns an error for keys that an entity does not have, because brokers accept
// unsetting a config that does not exist. The configs of all brokers are those of one broker, and
// those already set: another broker may know more.
func checkKeys(ctx context.Context, cl *kgo.Client, e Entity, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	all, err := fetchOver(ctx, cl, e)
	if err == nil && e.Kind == kmsg.ConfigResourceTypeBroker && e.Name == "" {
		var brokers kadm.BrokerDetails
		if brokers, err = kadm.NewClient(cl).ListBrokers(ctx); err != nil {
			return app.Refused("list brokers", err, "")
		}
		var one []Described
		if ids := brokers.NodeIDs(); len(ids) > 0 {
			one, err = fetchOver(ctx, cl, Entity{e.Kind, strconv.Itoa(int(ids[0]))})
		}
		all = append(all, one...)
	}
	if err == nil {
		_, err = choose(e, all, keys)
	}
	return err
}

func resource(e Entity, values map[string]string, unset []string) kmsg.IncrementalAlterConfigsRequestResource {
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = e.Kind, e.Name
	for _, k := range slices.Sorted(maps.Keys(values)) {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op, c.Value = k, kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr(values[k])
		r.Configs = append(r.Configs, c)
	}
	for _, k := range unset {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op = k, kmsg.IncrementalAlterConfigOpDelete
		r.Configs = append(r.Configs, c)
	}
	return r
}
