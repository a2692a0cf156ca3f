package fakebroker

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Cluster answers for all brokers of a cluster: it has replicas, log directories and configs, which
// requests change at once and a test at any request.
type Cluster struct {
	Port int32

	mu sync.Mutex
	// Hook is called before each answer. It may change the exported fields.
	Hook func(req kmsg.Request)
	// Refuse returns the error code for a partition of a request that moves it, 0 for none.
	Refuse func(topic string, partition int32) int16
	// Down has each connection closed instead of an answer.
	Down bool
	// Denied refuses each change of a broker's configs.
	Denied bool
	// Unread is the error code for the configs of each topic, 0 for none.
	Unread int16
	// Active are the brokers that the metadata name, Fenced those that only DescribeCluster does.
	Active, Fenced []int32
	// Mute are brokers that do not answer for their configs: each such connection is closed.
	Mute []int32
	// Partitions are the replicas, by topic.
	Partitions map[string][]Partition
	// Copies holds reassignments back: they are in progress until the test completes them.
	Copies bool
	// Dirs are the log directories of each broker, and Logs what is in them.
	Dirs []string
	Logs []Log
	// Configs are the dynamic configs, by "broker/1" and "topic/t".
	Configs map[string]map[string]string
	// Tagged sets tagged fields of each broker in an answer to DescribeCluster; nil sets none.
	Tagged func(tags *kmsg.Tags)
	// Asked are the requests, oldest first.
	Asked []kmsg.Request
}

// Partition is the state of a partition. The first replica leads, unless Leaderless.
type Partition struct {
	Replicas, ISR, Adding, Removing []int32
	Leaderless                      bool
}

// Log is a log in a directory. To is the one to which it moves, empty if it does not.
type Log struct {
	Topic     string
	Partition int32
	Dir, To   string
	Size      int64
}

// NewCluster returns a Cluster of brokers that serves until the test ends. Fields that Hook does
// not change must be set before the first request.
func NewCluster(t testing.TB, active ...int32) *Cluster {
	t.Helper()
	c := &Cluster{Active: active, Partitions: map[string][]Partition{}, Configs: map[string]map[string]string{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Port = Serve(t, c.answer)
	return c
}

// Addr returns the address of the brokers.
func (c *Cluster) Addr() string { return fmt.Sprintf("%s:%d", Host, c.Port) }

// Do calls f, which may read and change the exported fields.
func (c *Cluster) Do(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *Cluster) answer(req kmsg.Request) kmsg.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	if req, ok := req.(*kmsg.ApiVersionsRequest); ok {
		return versions(req)
	}
	c.Asked = append(c.Asked, req)
	if c.Hook != nil {
		c.Hook(req)
	}
	if c.Down {
		return nil
	}
	switch req := req.(type) {
	case *kmsg.MetadataRequest:
		return c.metadata(req)
	case *kmsg.DescribeClusterRequest:
		return c.describe(req)
	case *kmsg.ListPartitionReassignmentsRequest:
		return c.reassigning(req)
	case *kmsg.AlterPartitionAssignmentsRequest:
		return c.reassign(req)
	case *kmsg.ElectLeadersRequest:
		return req.ResponseKind()
	case *kmsg.DescribeLogDirsRequest:
		return c.dirs(req)
	case *kmsg.AlterReplicaLogDirsRequest:
		return c.move(req)
	case *kmsg.DescribeConfigsRequest:
		return c.configs(req)
	case *kmsg.IncrementalAlterConfigsRequest:
		return c.alter(req)
	}
	return nil
}

func versions(req *kmsg.ApiVersionsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	for k, most := range map[kmsg.Key]int16{kmsg.ApiVersions: 3, kmsg.Metadata: 9, kmsg.DescribeCluster: 2,
		kmsg.ListPartitionReassignments: 0, kmsg.AlterPartitionAssignments: 1, kmsg.ElectLeaders: 2, kmsg.DescribeLogDirs: 4,
		kmsg.AlterReplicaLogDirs: 2, kmsg.DescribeConfigs: 4, kmsg.IncrementalAlterConfigs: 1} {
		resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: int16(k), MaxVersion: most})
	}
	return resp
}

func (c *Cluster) metadata(req *kmsg.MetadataRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	resp.ControllerID = c.Active[0]
	for _, id := range c.Active {
		resp.Brokers = append(resp.Brokers, kmsg.MetadataResponseBroker{NodeID: id, Host: Host, Port: c.Port})
	}
	names := slices.Sorted(maps.Keys(c.Partitions))
	if req.Topics != nil {
		names = nil
		for _, t := range req.Topics {
			names = append(names, *t.Topic)
		}
	}
	for _, name := range names {
		t := kmsg.MetadataResponseTopic{Topic: &name}
		for i, p := range c.Partitions[name] {
			leader, code := int32(-1), kerr.LeaderNotAvailable.Code
			if !p.Leaderless {
				leader, code = p.Replicas[0], 0
			}
			t.Partitions = append(t.Partitions, kmsg.MetadataResponseTopicPartition{ErrorCode: code, Partition: int32(i), Leader: leader,
				Replicas: p.Replicas, ISR: p.ISR})
		}
		if len(t.Partitions) == 0 {
			t.ErrorCode = 3 // UNKNOWN_TOPIC_OR_PARTITION
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func (c *Cluster) describe(req *kmsg.DescribeClusterRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	resp.ControllerID = c.Active[0]
	ids := slices.Clone(c.Active)
	if req.IncludeFencedBrokers {
		ids = append(ids, c.Fenced...)
	}
	for _, id := range ids {
		b := kmsg.DescribeClusterResponseBroker{NodeID: id, Host: Host, Port: c.Port, IsFenced: slices.Contains(c.Fenced, id)}
		if c.Tagged != nil {
			c.Tagged(&b.UnknownTags)
		}
		resp.Brokers = append(resp.Brokers, b)
	}
	return resp
}

func (c *Cluster) reassigning(req *kmsg.ListPartitionReassignmentsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	for _, name := range slices.Sorted(maps.Keys(c.Partitions)) {
		t := kmsg.ListPartitionReassignmentsResponseTopic{Topic: name}
		for i, p := range c.Partitions[name] {
			if len(p.Adding)+len(p.Removing) > 0 {
				t.Partitions = append(t.Partitions, kmsg.ListPartitionReassignmentsResponseTopicPartition{Partition: int32(i),
					Replicas: p.Replicas, AddingReplicas: p.Adding, RemovingReplicas: p.Removing})
			}
		}
		if len(t.Partitions) > 0 {
			resp.Topics = append(resp.Topics, t)
		}
	}
	return resp
}

func (c *Cluster) reassign(req *kmsg.AlterPartitionAssignmentsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	for _, t := range req.Topics {
		out := kmsg.AlterPartitionAssignmentsResponseTopic{Topic: t.Topic}
		for _, x := range t.Partitions {
			one := kmsg.AlterPartitionAssignmentsResponseTopicPartition{Partition: x.Partition}
			if c.Refuse != nil {
				one.ErrorCode = c.Refuse(t.Topic, x.Partition)
			}
			if p := &c.Partitions[t.Topic][x.Partition]; one.ErrorCode == 0 {
				p.reassign(x.Replicas, c.Copies)
			}
			out.Partitions = append(out.Partitions, one)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func (p *Partition) reassign(to []int32, copies bool) {
	lacks := func(list []int32) func(int32) bool { return func(b int32) bool { return !slices.Contains(list, b) } }
	adding := slices.DeleteFunc(slices.Clone(to), func(b int32) bool { return !lacks(p.Replicas)(b) })
	if !copies || len(adding) == 0 {
		*p = Partition{Replicas: to, ISR: to}
		return
	}
	p.Removing = slices.DeleteFunc(slices.Clone(p.Replicas), func(b int32) bool { return !lacks(to)(b) })
	p.Adding, p.Replicas = adding, slices.Concat(to, p.Removing)
}

// Complete ends the reassignment of a partition, as when its copies are in sync.
func (p *Partition) Complete() {
	left := slices.DeleteFunc(slices.Clone(p.Replicas), func(b int32) bool { return slices.Contains(p.Removing, b) })
	*p = Partition{Replicas: left, ISR: left}
}

func (c *Cluster) dirs(req *kmsg.DescribeLogDirsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	for _, dir := range c.Dirs {
		d := kmsg.NewDescribeLogDirsResponseDir()
		d.Dir = dir
		for _, l := range c.Logs {
			p := kmsg.DescribeLogDirsResponseDirTopicPartition{Partition: l.Partition, Size: l.Size, IsFuture: l.To == dir}
			if l.Dir == dir || l.To == dir {
				d.Topics = append(d.Topics, kmsg.DescribeLogDirsResponseDirTopic{Topic: l.Topic,
					Partitions: []kmsg.DescribeLogDirsResponseDirTopicPartition{p}})
			}
		}
		resp.Dirs = append(resp.Dirs, d)
	}
	return resp
}

// move begins the move of logs, or cancels it.
func (c *Cluster) move(req *kmsg.AlterReplicaLogDirsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AlterReplicaLogDirsResponse)
	for _, d := range req.Dirs {
		for _, t := range d.Topics {
			out := kmsg.AlterReplicaLogDirsResponseTopic{Topic: t.Topic}
			for _, n := range t.Partitions {
				one := kmsg.AlterReplicaLogDirsResponseTopicPartition{Partition: n}
				if c.Refuse != nil {
					one.ErrorCode = c.Refuse(t.Topic, n)
				}
				for i := range c.Logs {
					if l := &c.Logs[i]; l.Topic == t.Topic && l.Partition == n && one.ErrorCode == 0 {
						if l.To = d.Dir; l.Dir == d.Dir {
							l.To = ""
						}
					}
				}
				out.Partitions = append(out.Partitions, one)
			}
			resp.Topics = append(resp.Topics, out)
		}
	}
	return resp
}

func resource(kind kmsg.ConfigResourceType, name string) string {
	return strings.ToLower(kind.String()) + "/" + name
}

func (c *Cluster) configs(req *kmsg.DescribeConfigsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	for _, r := range req.Resources {
		if id, err := strconv.Atoi(r.ResourceName); err == nil && slices.Contains(c.Mute, int32(id)) {
			return nil
		}
		out := kmsg.DescribeConfigsResponseResource{ResourceType: r.ResourceType, ResourceName: r.ResourceName}
		set := c.Configs[resource(r.ResourceType, r.ResourceName)]
		source := kmsg.ConfigSourceDynamicTopicConfig
		if c.Unread != 0 && r.ResourceType == kmsg.ConfigResourceTypeTopic {
			out.ErrorCode = c.Unread
			resp.Resources = append(resp.Resources, out)
			continue
		}
		if r.ResourceType == kmsg.ConfigResourceTypeBroker {
			source = kmsg.ConfigSourceDynamicBrokerConfig
		}
		for _, name := range slices.Sorted(maps.Keys(set)) {
			value := set[name]
			out.Configs = append(out.Configs, kmsg.DescribeConfigsResponseResourceConfig{Name: name, Value: &value, Source: source})
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

func (c *Cluster) alter(req *kmsg.IncrementalAlterConfigsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	for _, r := range req.Resources {
		at := resource(r.ResourceType, r.ResourceName)
		if c.Denied && r.ResourceType == kmsg.ConfigResourceTypeBroker {
			resp.Resources = append(resp.Resources, kmsg.IncrementalAlterConfigsResponseResource{ResourceType: r.ResourceType,
				ResourceName: r.ResourceName, ErrorCode: kerr.ClusterAuthorizationFailed.Code})
			continue
		}
		if c.Configs[at] == nil {
			c.Configs[at] = map[string]string{}
		}
		for _, x := range r.Configs {
			list := strings.FieldsFunc(c.Configs[at][x.Name], func(r rune) bool { return r == ',' })
			switch x.Op {
			case kmsg.IncrementalAlterConfigOpSet:
				c.Configs[at][x.Name] = *x.Value
			case kmsg.IncrementalAlterConfigOpDelete:
				delete(c.Configs[at], x.Name)
			case kmsg.IncrementalAlterConfigOpAppend:
				for _, v := range strings.Split(*x.Value, ",") {
					if !slices.Contains(list, v) {
						list = append(list, v)
					}
				}
				c.Configs[at][x.Name] = strings.Join(list, ",")
			case kmsg.IncrementalAlterConfigOpSubtract:
				gone := strings.Split(*x.Value, ",")
				c.Configs[at][x.Name] = strings.Join(slices.DeleteFunc(list, func(v string) bool { return slices.Contains(gone, v) }), ",")
			}
		}
		resp.Resources = append(resp.Resources, kmsg.IncrementalAlterConfigsResponseResource{ResourceType: r.ResourceType,
			ResourceName: r.ResourceName})
	}
	return resp
}

// Config returns a dynamic config of a broker, "" if it is not set.
func (c *Cluster) Config(broker int32, name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Configs["broker/"+strconv.Itoa(int(broker))][name]
}
