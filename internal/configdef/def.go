package configdef

// Type is a config's type, numbered as in DescribeConfigs (KIP-569).
type Type int8

// The types that Kafka has.
const (
	Boolean  Type = 1
	String   Type = 2
	Int      Type = 3 // 32 bits, signed
	Short    Type = 4 // 16 bits, signed
	Long     Type = 5 // 64 bits, signed
	Double   Type = 6
	List     Type = 7 // comma-separated
	Class    Type = 8
	Password Type = 9
)

// String returns the name of the type in Kafka's error messages.
func (t Type) String() string {
	switch t {
	case Boolean:
		return "BOOLEAN"
	case String:
		return "STRING"
	case Int:
		return "INT"
	case Short:
		return "SHORT"
	case Long:
		return "LONG"
	case Double:
		return "DOUBLE"
	case List:
		return "LIST"
	case Class:
		return "CLASS"
	case Password:
		return "PASSWORD"
	}
	return "UNKNOWN"
}

// Source is where a value comes from, numbered as in DescribeConfigs (KIP-226).
type Source int8

// The sources, from the strongest to the weakest.
const (
	SourceTopic         Source = 1 // set on the topic
	SourceDynamicBroker Source = 2 // set on this broker, dynamically
	SourceDynamicAll    Source = 3 // set on all brokers, dynamically
	SourceStatic        Source = 4 // from the broker's file, flags or environment
	SourceDefault       Source = 5
	SourceSubscription  Source = 7 // set on a subscription to metrics of clients, as strong as SourceTopic
	SourceGroup         Source = 8 // set on the group, as strong as SourceTopic
)

// Importance is the importance that Kafka assigns to a config.
type Importance int8

// The degrees of importance.
const (
	Low Importance = iota
	Medium
	High
)

// Update is how a broker config can be changed while the broker runs.
type Update int8

const (
	// ReadOnly configs change only at a restart.
	ReadOnly Update = iota
	// PerBroker configs change dynamically, for one broker at a time.
	PerBroker
	// ClusterWide configs change dynamically, for one broker or for all.
	ClusterWide
)

// Def describes one config. It is immutable.
type Def struct {
	Name string
	Type Type
	// Default is the text of the default value. Without HasDefault there is none: the value is
	// null, or that of a synonym.
	Default    string
	HasDefault bool
	// Doc describes the config and its unit in a sentence or two.
	Doc        string
	Importance Importance
	// Update applies to broker configs; every topic config can be changed.
	Update Update
	// Synonyms are the broker configs that provide the value if it is not set directly, strongest
	// first. For a broker config they include the config itself.
	Synonyms []Synonym
	// Supported is false for a config that Kafka has and chronik does not use. Its values are
	// checked only to report Kafka's errors first.
	Supported bool
	// Internal is true for a config that is for tests. As in Kafka, it is described only where it
	// is set, so that no client, page or command suggests it.
	Internal bool
	// Bounds describes the valid values: "at least 1"; empty if any value of the type is valid.
	Bounds string

	checks []check
}

// Documentation returns Doc with the bounds, for which DescribeConfigs has no field.
func (d *Def) Documentation() string {
	if d.Bounds == "" {
		return d.Doc
	}
	return d.Doc + " Valid: " + d.Bounds + "."
}

// Synonym is another name for a config's value.
type Synonym struct {
	Name string
	// Scale converts the synonym's unit to the config's: 3,600,000 from hours to milliseconds. It
	// is 1 for the same unit and for values that are not numbers.
	Scale int64
}

// check returns why a parsed value is invalid, in Kafka's words, or nil.
type check func(*Def, value) error

// option completes a Def.
type option func(*Def)

// topicDef returns the definition of a topic config. If a broker config sets its default, opts
// include from or fromScaled with that name: topicDefault derives the broker config.
func topicDef(name string, t Type, def, doc string, opts ...option) *Def {
	d := &Def{Name: name, Type: t, Default: def, HasDefault: true, Doc: doc, Importance: Medium, Supported: true}
	for _, o := range opts {
		o(d)
	}
	return d
}

// brokerDef returns the definition of a broker config that needs a restart.
func brokerDef(name string, t Type, def, doc string, opts ...option) *Def {
	d := &Def{Name: name, Type: t, Default: def, HasDefault: true, Doc: doc, Importance: Medium, Supported: true,
		Synonyms: []Synonym{{name, 1}}}
	for _, o := range opts {
		o(d)
	}
	return d
}

func from(broker string) option { return fromScaled(broker, 1) }

func fromScaled(broker string, scale int64) option {
	return func(d *Def) { d.Synonyms = append(d.Synonyms, Synonym{broker, scale}) }
}

func importance(i Importance) option { return func(d *Def) { d.Importance = i } }

func noDefault(d *Def) { d.Default, d.HasDefault = "", false }

func internal(d *Def) { d.Internal = true }

func unsupported(d *Def) { d.Supported = false }

// bounded adds a check and its description.
func bounded(words string, c check) option {
	return func(d *Def) { d.Bounds, d.checks = words, append(d.checks, c) }
}

func checked(c check) option { return func(d *Def) { d.checks = append(d.checks, c) } }
