package telemetry

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/chronik-io/chronik/internal/view"
)

// ErrMalformed means that a push is no MetricsData message of OTLP.
var ErrMalformed = errors.New("the metrics are not in OTLP's format")

// point is one value of a metric.
type point struct {
	name  string
	rest  view.ClientSeries // its labels; without Client and Value
	value float64
	// delta: value is what was added since the last push. total: the sum only grows.
	delta, total bool
}

// Field numbers of opentelemetry/proto/metrics/v1/metrics.proto and common/v1/common.proto, which
// are stable.
const (
	dataResources, resourceScopes, scopeMetrics = 1, 2, 2

	metricName, metricGauge, metricSum = 1, 5, 7

	pointsOf, sumTemporality, sumMonotonic = 1, 2, 3

	pointDouble, pointInt, pointAttributes = 4, 6, 7

	pairKey, pairValue = 1, 2

	valueString, valueBool, valueInt, valueDouble = 1, 2, 3, 4

	temporalityDelta = 1
)

// field is one field of a message.
type field struct {
	num   protowire.Number
	typ   protowire.Type
	bytes []byte // of a message or string
	bits  uint64 // of a number
}

// message is a field that is itself a message; otherwise nil, which has no fields.
func (f field) message() []byte { return f.bytes }

// fields calls visit with each field of a message. It reads the message in place: the decoded form
// of a small push could be a hundred times as large.
func fields(b []byte, visit func(field) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: %w", ErrMalformed, protowire.ParseError(n))
		}
		b = b[n:]
		f := field{num: num, typ: typ}
		switch typ {
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			f.bits, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			f.bits, n = protowire.ConsumeFixed64(b)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return fmt.Errorf("%w: %w", ErrMalformed, protowire.ParseError(n))
		}
		b = b[n:]
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// below calls visit with each message of field num.
func below(b []byte, num protowire.Number, visit func([]byte) error) error {
	return fields(b, func(f field) error {
		if f.num != num || f.typ != protowire.BytesType {
			return nil
		}
		return visit(f.message())
	})
}

// decode calls visit with each point of a MetricsData message. wanted says of which metrics.
// Histograms and summaries, which Kafka's clients do not push, are left out.
func decode(data []byte, wanted func(name string) bool, visit func(*point)) error {
	return below(data, dataResources, func(resource []byte) error {
		return below(resource, resourceScopes, func(scope []byte) error {
			return below(scope, scopeMetrics, func(metric []byte) error {
				return decodeMetric(metric, wanted, visit)
			})
		})
	})
}

func decodeMetric(metric []byte, wanted func(string) bool, visit func(*point)) error {
	var name string
	var gauge, sum []byte
	if err := fields(metric, func(f field) error {
		switch f.num {
		case metricName:
			name = text(f.bytes)
		case metricGauge:
			gauge = f.bytes
		case metricSum:
			sum = f.bytes
		}
		return nil
	}); err != nil || !wanted(name) {
		return err
	}
	var p point
	p.name = name
	points := func(list []byte) error {
		return below(list, pointsOf, func(b []byte) error {
			ok, err := p.decode(b)
			if ok {
				visit(&p)
			}
			return err
		})
	}
	if gauge != nil {
		return points(gauge)
	}
	if err := fields(sum, func(f field) error {
		switch f.num {
		case sumTemporality:
			p.delta = f.bits == temporalityDelta
		case sumMonotonic:
			p.total = f.bits != 0
		}
		return nil
	}); err != nil {
		return err
	}
	return points(sum)
}

// decode reads a NumberDataPoint; ok is false if it has no value.
func (p *point) decode(b []byte) (ok bool, err error) {
	p.rest = view.ClientSeries{Metric: p.name, Total: p.total}
	var others []string
	err = fields(b, func(f field) error {
		switch {
		case f.num == pointDouble && f.typ == protowire.Fixed64Type:
			p.value, ok = math.Float64frombits(f.bits), true
		case f.num == pointInt && f.typ == protowire.Fixed64Type:
			p.value, ok = float64(int64(f.bits)), true
		case f.num == pointAttributes && f.typ == protowire.BytesType:
			key, value, err := pair(f.message())
			if err != nil {
				return err
			}
			switch key {
			case "topic":
				p.rest.Topic = value
			case "partition":
				p.rest.Partition = value
			case "node_id", "node.id":
				p.rest.Node = strings.TrimPrefix(value, "node-") // as Java's clients write it
			case "client_id", "client.id": // the connection says it
			default:
				if len(others) < maxAttributes {
					others = append(others, key+"="+value)
				}
			}
		}
		return nil
	})
	slices.Sort(others)
	p.rest.Attributes = view.Cut(strings.Join(others, ","))
	return ok, err
}

// pair reads a KeyValue. Values that are lists or maps are empty.
func pair(b []byte) (key, value string, err error) {
	err = fields(b, func(f field) error {
		switch f.num {
		case pairKey:
			key = text(f.bytes)
		case pairValue:
			return fields(f.message(), func(f field) error {
				switch f.num {
				case valueString:
					value = text(f.bytes)
				case valueBool:
					value = strconv.FormatBool(f.bits != 0)
				case valueInt:
					value = strconv.FormatInt(int64(f.bits), 10)
				case valueDouble:
					value = strconv.FormatFloat(math.Float64frombits(f.bits), 'g', -1, 64)
				}
				return nil
			})
		}
		return nil
	})
	return key, value, err
}

// text returns at most 256 bytes of a string, valid as a label of Prometheus.
func text(b []byte) string {
	return strings.ToValidUTF8(string(b[:min(len(b), maxText)]), "")
}
