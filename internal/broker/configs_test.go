package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	topicType  = kmsg.ConfigResourceTypeTopic
	brokerType = kmsg.ConfigResourceTypeBroker
)

// incremental returns a request for one or more operations: name, operation, value. "null" stands
// for null.
func incremental(kind kmsg.ConfigResourceType, name string, ops ...any) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	x := kmsg.NewIncrementalAlterConfigsRequestResource()
	x.ResourceType, x.ResourceName = kind, name
	for i := 0; i < len(ops); i += 3 {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op = ops[i].(string), ops[i+1].(kmsg.IncrementalAlterConfigOp)
		if v := ops[i+2].(string); v != "null" {
			c.Value = &v
		}
		x.Configs = append(x.Configs, c)
	}
	req.Resources = append(req.Resources, x)
	return req
}

func replacing(kind kmsg.ConfigResourceType, name string, configs ...string) *kmsg.AlterConfigsRequest {
	req := kmsg.NewPtrAlterConfigsRequest()
	x := kmsg.NewAlterConfigsRequestResource()
	x.ResourceType, x.ResourceName = kind, name
	for i := 0; i < len(configs); i += 2 {
		c := kmsg.NewAlterConfigsRequestResourceConfig()
		c.Name = configs[i]
		if v := configs[i+1]; v != "null" {
			c.Value = &v
		}
		x.Configs = append(x.Configs, c)
	}
	req.Resources = append(req.Resources, x)
	return req
}

func describing(kind kmsg.ConfigResourceType, name string, configs ...string) *kmsg.DescribeConfigsRequest {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	x := kmsg.NewDescribeConfigsRequestResource()
	x.ResourceType, x.ResourceName, x.ConfigNames = kind, name, configs
	req.Resources = append(req.Resources, x)
	return req
}

// lines returns the configs of an answer: name=value, source, synonyms.
func lines(x *kmsg.DescribeConfigsResponseResource) (list []string) {
	show := func(v *string) string {
		if v == nil {
			return "null"
		}
		return *v
	}
	for _, c := range x.Configs {
		text := fmt.Sprintf("%s=%s %v", c.Name, show(c.Value), c.Source)
		if c.ReadOnly {
			text += " read-only"
		}
		for _, s := range c.ConfigSynonyms {
			text += fmt.Sprintf(" {%v:%s=%s}", s.Source, s.Name, show(s.Value))
		}
		list = append(list, text)
	}
	return list
}

func wantConfigs(t *testing.T, w *wire, req *kmsg.DescribeConfigsRequest, want ...string) {
	t.Helper()
	x := ask[*kmsg.DescribeConfigsResponse](t, w, 4, req).Resources[0]
	if got := said(x.ErrorCode, x.ErrorMessage); got != "ok" {
		t.Fatal(got)
	}
	if diff := cmp.Diff(want, lines(&x)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func alter(t *testing.T, w *wire, req *kmsg.IncrementalAlterConfigsRequest) string {
	t.Helper()
	x := ask[*kmsg.IncrementalAlterConfigsResponse](t, w, 1, req).Resources[0]
	return said(x.ErrorCode, x.ErrorMessage)
}

func mustAlter(t *testing.T, w *wire, req *kmsg.IncrementalAlterConfigsRequest) {
	t.Helper()
	if got := alter(t, w, req); got != "ok" {
		t.Fatal(got)
	}
}

const (
	set      = kmsg.IncrementalAlterConfigOpSet
	unset    = kmsg.IncrementalAlterConfigOpDelete
	appendTo = kmsg.IncrementalAlterConfigOpAppend
)

func TestConfigsAreDescribedWithEveryPlaceThatSetsThem(t *testing.T) {
	n := newNode(t, func(o *nodeOptions) { o.static["message.max.bytes"] = "500000" })
	n.topic(t, "t", 1, "max.message.bytes", "100000")
	w := n.dial(t)
	mustAlter(t, w, incremental(brokerType, "1", "message.max.bytes", set, "400000"))
	mustAlter(t, w, incremental(brokerType, "", "message.max.bytes", set, "300000", "log.segment.bytes", set, "2000000"))
	wantConfigs(t, w, describing(topicType, "t", "segment.bytes", "max.message.bytes", "compression.type"),
		"compression.type=producer DEFAULT_CONFIG {DEFAULT_CONFIG:compression.type=producer}",
		"max.message.bytes=100000 DYNAMIC_TOPIC_CONFIG {DYNAMIC_TOPIC_CONFIG:max.message.bytes=100000} {DYNAMIC_BROKER_CONFIG:message.max.bytes=400000} "+
			"{DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=300000} {STATIC_BROKER_CONFIG:message.max.bytes=500000} {DEFAULT_CONFIG:message.max.bytes=1048588}",
		"segment.bytes=2000000 DYNAMIC_DEFAULT_BROKER_CONFIG {DYNAMIC_DEFAULT_BROKER_CONFIG:log.segment.bytes=2000000} {DEFAULT_CONFIG:log.segment.bytes=1073741824}")
	wantConfigs(t, w, describing(brokerType, "1", "message.max.bytes", "num.partitions", "broker.rack"),
		"broker.rack=null DEFAULT_CONFIG read-only",
		"message.max.bytes=400000 DYNAMIC_BROKER_CONFIG {DYNAMIC_BROKER_CONFIG:message.max.bytes=400000} {DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=300000} "+
			"{STATIC_BROKER_CONFIG:message.max.bytes=500000} {DEFAULT_CONFIG:message.max.bytes=1048588}",
		"num.partitions=1 DEFAULT_CONFIG read-only {DEFAULT_CONFIG:num.partitions=1}")
	wantConfigs(t, w, describing(brokerType, ""),
		"log.segment.bytes=2000000 DYNAMIC_DEFAULT_BROKER_CONFIG {DYNAMIC_DEFAULT_BROKER_CONFIG:log.segment.bytes=2000000}",
		"message.max.bytes=300000 DYNAMIC_DEFAULT_BROKER_CONFIG {DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=300000}")

	// The described configs are the effective ones.
	conf := n.topicConf(n.image(), n.image().Topic("t"))
	if conf.Conf.SegmentBytes != 2_000_000 || conf.Rules.MaxBatchBytes != 100_000 {
		t.Errorf("segments of %d bytes, batches of %d", conf.Conf.SegmentBytes, conf.Rules.MaxBatchBytes)
	}
	mustAlter(t, w, incremental(brokerType, "", "log.segment.bytes", unset, "null"))
	mustAlter(t, w, incremental(topicType, "t", "max.message.bytes", unset, "null"))
	conf = n.topicConf(n.image(), n.image().Topic("t"))
	if conf.Conf.SegmentBytes != 1<<30 || conf.Rules.MaxBatchBytes != 400_000 {
		t.Errorf("segments of %d bytes, batches of %d", conf.Conf.SegmentBytes, conf.Rules.MaxBatchBytes)
	}
}

// publicTopicConfigs returns how many configs of a new topic are described.
func publicTopicConfigs(n *node) (count int) {
	for _, d := range n.configs.Topics() {
		if !d.Internal {
			count++
		}
	}
	return count
}

func TestDescribeConfigsGivesWhatIsAskedFor(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 1)
	w := n.dial(t)
	for v := int16(1); v <= 4; v++ {
		for _, names := range [][]string{nil, {}} {
			all := ask[*kmsg.DescribeConfigsResponse](t, w, v, describing(topicType, "t", names...)).Resources[0]
			if len(all.Configs) != publicTopicConfigs(n) {
				t.Errorf("version %d: %d configs, want %d", v, len(all.Configs), publicTopicConfigs(n))
			}
			for _, c := range all.Configs {
				// As in Kafka, some have no setting of a broker behind them.
				alone := strings.HasSuffix(c.Name, ".throttled.replicas") || strings.HasPrefix(c.Name, "errors.deadletterqueue.") ||
					strings.HasPrefix(c.Name, "remote.")
				plain := v >= 3 && (c.Documentation == nil || *c.Documentation == "" || c.ConfigType == 0)
				if (len(c.ConfigSynonyms) == 0) != alone || plain {
					t.Errorf("version %d: %+v", v, c)
				}
			}
		}
		bare := describing(topicType, "t", "segment.ms", "no.such")
		bare.IncludeDocumentation, bare.IncludeSynonyms = false, false
		x := ask[*kmsg.DescribeConfigsResponse](t, w, v, bare).Resources[0]
		if len(x.Configs) != 1 || len(x.Configs[0].ConfigSynonyms) > 0 || x.Configs[0].Documentation != nil || v >= 3 &&
			x.Configs[0].ConfigType != kmsg.ConfigTypeLong {
			t.Errorf("version %d: %+v", v, x.Configs)
		}
	}
	broker := ask[*kmsg.DescribeConfigsResponse](t, w, 4, describing(brokerType, "1")).Resources[0]
	if len(broker.Configs) != len(n.configs.Brokers()) {
		t.Errorf("%d configs of the broker, want %d", len(broker.Configs), len(n.configs.Brokers()))
	}
}

func TestDescribeConfigsRefusesAsKafkaDoes(t *testing.T) {
	n := newNode(t)
	w := n.dial(t)
	for _, c := range []struct {
		kind kmsg.ConfigResourceType
		name string
		want string
	}{
		{topicType, "no", "UNKNOWN_TOPIC_OR_PARTITION: "},
		{topicType, "bad!", "INVALID_TOPIC_EXCEPTION: Topic name is invalid: 'bad!' contains one or more"},
		{topicType, "", "INVALID_TOPIC_EXCEPTION: Topic name is invalid: the empty string is not allowed"},
		{brokerType, "x", "INVALID_REQUEST: Broker id must be an integer, but it is: x"},
		{brokerType, "7", "INVALID_REQUEST: Unexpected broker id, expected 1 or empty string, but received 7"},
		{brokerType, "-1", "INVALID_REQUEST: Unexpected broker id, expected 1 or empty string, but received -1"},
		{loggerType, "", "INVALID_REQUEST: Broker id must not be empty"},
		{loggerType, "x", "INVALID_REQUEST: Broker id must be an integer, but it is: x"},
		{loggerType, "7", "INVALID_REQUEST: Unexpected broker id, expected 1 but received 7"},
		{kmsg.ConfigResourceTypeClientMetrics, "", "INVALID_REQUEST: Client metrics subscription name must not be empty"},
		{3, "x", "INVALID_REQUEST: Unknown resource type"},
	} {
		x := ask[*kmsg.DescribeConfigsResponse](t, w, 4, describing(c.kind, c.name)).Resources[0]
		if got := said(x.ErrorCode, x.ErrorMessage); !strings.HasPrefix(got, c.want) || len(x.Configs) > 0 || x.ResourceName != c.name ||
			x.ResourceType != c.kind {
			t.Errorf("%v %q: %s\nwant %s", c.kind, c.name, got, c.want)
		}
	}
}

func TestAlterConfigsRefusesAsKafkaDoes(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 1, "segment.ms", "7")
	w := n.dial(t)
	for _, c := range []struct {
		req  *kmsg.IncrementalAlterConfigsRequest
		want string
	}{
		{incremental(topicType, "t", "segment.ms", set, "abc"),
			"INVALID_CONFIG: Invalid value abc for configuration segment.ms: Not a number of type LONG"},
		{incremental(topicType, "t", "no.such", set, "1"), "INVALID_CONFIG: Unknown topic config name: no.such"},
		{incremental(topicType, "t", "remote.copy.lag.ms", set, "-2"),
			"INVALID_CONFIG: Invalid value -2 for configuration remote.copy.lag.ms: Value must be at least -1"},
		{incremental(topicType, "t", "remote.copy.lag.ms", set, "1"),
			"INVALID_CONFIG: Topic config remote.copy.lag.ms exists in Kafka, but this version of chronik does not support it; leave it out: "},
		{incremental(topicType, "t", "segment.ms", set, "null"), "INVALID_REQUEST: Null value not supported for : segment.ms"},
		{incremental(topicType, "t", "segment.ms", kmsg.IncrementalAlterConfigOp(9), "1"), "INVALID_REQUEST: Unknown operations type 9"},
		{incremental(topicType, "t", "segment.ms", set, "1", "segment.ms", unset, "null"),
			"INVALID_REQUEST: Error due to duplicate config keys"},
		{incremental(topicType, "t", "segment.ms", appendTo, "1"),
			"INVALID_CONFIG: Can't APPEND to key segment.ms because its type is not LIST."},
		{incremental(topicType, "no", "segment.ms", set, "1"), "UNKNOWN_TOPIC_OR_PARTITION: The topic 'no' does not exist."},
		{incremental(topicType, "", "segment.ms", set, "1"), "INVALID_REQUEST: Default topic resources are not allowed."},
		{incremental(brokerType, "x", "message.max.bytes", set, "1"), "INVALID_REQUEST: Node id must be an integer, but it is: x"},
		{incremental(brokerType, "7", "message.max.bytes", set, "1"), "BROKER_ID_NOT_REGISTERED: Broker ID 7 is not currently registered"},
		{incremental(brokerType, "1", "log.dirs", set, "/x"), "INVALID_REQUEST: Cannot update these configs dynamically: [log.dirs]"},
		{incremental(3, "t", "segment.ms", set, "1"), "INVALID_REQUEST: Unknown resource type 3"},
		{incremental(topicType, "t"), "ok"},
		// All changes of a resource are made or none.
		{incremental(topicType, "t", "segment.bytes", set, "3000000", "no.such", set, "1"),
			"INVALID_CONFIG: Unknown topic config name: no.such"},
	} {
		if got := alter(t, w, c.req); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
	for _, c := range []struct {
		req  *kmsg.AlterConfigsRequest
		want string
	}{
		{replacing(topicType, "t", "segment.ms", "null"), "INVALID_REQUEST: Null value not supported for : segment.ms"},
		{replacing(topicType, "t", "segment.ms", "1", "segment.ms", "2"), "INVALID_REQUEST: Error due to duplicate config keys"},
		{replacing(topicType, "no", "segment.ms", "1"), "UNKNOWN_TOPIC_OR_PARTITION: The topic 'no' does not exist."},
		{replacing(8, "1", "root", "INFO"), "INVALID_REQUEST: Unknown resource type 8"},
	} {
		x := ask[*kmsg.AlterConfigsResponse](t, w, 2, c.req).Resources[0]
		if got := said(x.ErrorCode, x.ErrorMessage); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
	if diff := cmp.Diff(map[string]string{"segment.ms": "7"}, n.image().Topic("t").Configs); diff != "" {
		t.Errorf("configs of t (-want +got):\n%s", diff)
	}
}

func TestAResourceMayBeNamedOnce(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 1)
	n.topic(t, "u", 1)
	w := n.dial(t)
	req := incremental(topicType, "t", "segment.ms", set, "1")
	req.Resources = append(req.Resources, req.Resources[0], incremental(topicType, "u", "segment.ms", set, "2").Resources[0])
	var got []string
	for _, x := range ask[*kmsg.IncrementalAlterConfigsResponse](t, w, 1, req).Resources {
		got = append(got, x.ResourceName+" "+said(x.ErrorCode, x.ErrorMessage))
	}
	const refused = "t INVALID_REQUEST: Each resource must appear at most once."
	if diff := cmp.Diff([]string{refused, refused, "u ok"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if img := n.image(); len(img.Topic("t").Configs) != 0 || img.Topic("u").Configs["segment.ms"] != "2" {
		t.Errorf("%v %v", img.Topic("t").Configs, img.Topic("u").Configs)
	}
}

func TestAlterConfigsReplacesAndIncrementalDoesNot(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 1, "segment.ms", "7")
	w := n.dial(t)
	for v := range int16(2) {
		must(t, w.send(setVersion(incremental(topicType, "t", "segment.bytes", set, "3000000"), v)))
		_, err := w.body()
		must(t, err)
		if c := n.image().Topic("t").Configs; len(c) != 2 {
			t.Errorf("version %d: %v", v, c)
		}
	}
	for v := range int16(3) {
		x := ask[*kmsg.AlterConfigsResponse](t, w, v, replacing(topicType, "t", "segment.bytes", fmt.Sprint(2_000_000+int(v)))).Resources[0]
		if c := n.image().Topic("t").Configs; x.ErrorCode != 0 || len(c) != 1 || c["segment.bytes"] != fmt.Sprint(2_000_000+int(v)) {
			t.Errorf("version %d: %v %+v", v, c, x)
		}
	}
}

func setVersion[R kmsg.Request](r R, v int16) R {
	r.SetVersion(v)
	return r
}

func TestListConfigResources(t *testing.T) {
	n := newNode(t)
	n.topic(t, "b", 1)
	n.topic(t, "a", 1)
	w := n.dial(t)
	for _, c := range []struct {
		version int16
		types   []int8
		want    string
	}{
		{0, nil, "0"}, {1, nil, "0 4:1 8:1 2:a 2:b"}, {1, []int8{2}, "0 2:a 2:b"}, {1, []int8{4, 8}, "0 4:1 8:1"}, {1, []int8{16, 32}, "0"},
		{1, []int8{3}, "35"},
	} {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = c.types
		resp := ask[*kmsg.ListConfigResourcesResponse](t, w, c.version, req)
		got := fmt.Sprint(resp.ErrorCode)
		for _, x := range resp.ConfigResources {
			got += fmt.Sprintf(" %d:%s", x.Type, x.Name)
		}
		if got != c.want {
			t.Errorf("version %d, types %v: %s, want %s", c.version, c.types, got, c.want)
		}
	}
}
