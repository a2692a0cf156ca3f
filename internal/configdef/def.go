package configdef

// Type is a config's type; the numbers are those of DescribeConfigs (KIP-569).
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

// String is the name that Kafka gives the type in its error texts.
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

// Source is where a value comes from; the numbers are those of DescribeConfigs
// (KIP-226).
type Source int8

// The sources, from the strongest to the weakest.
const (
	SourceTopic         Source = 1 // set on the topic
	SourceDynamicBroker Source = 2 // set on this broker, dynamically
	SourceDynamicAll    Source = 3 // set on all brokers, dynamically
	SourceStatic        Source = 4 // from the broker's file, flags or environment
	SourceDefault       Source = 5
	SourceGroup         Source = 8 // set on the group, as strong as SourceTopic
)

// Importance is how much Kafka thinks one should care.
type Importance int8

// The degrees of importance.
const (
	Low Importance = iota
	Medium
	High
)

// Update says how a broker config can be changed while the broker runs.
type Update int8

const (
	// ReadOnly is for those that change with a restart only.
	ReadOnly Update = iota
	// PerBroker is for those that change dynamically, on one broker at a time.
	PerBroker
	// ClusterWide is for those that change dynamically, on one broker or on all.
	ClusterWide
)

// Def describes one config. It is immutable.
type Def struct {
	Name string
	Type Type
	// Default is the text of the default value. Without HasDefault there is
	// none: the value is null, or that of a synonym.
	Default    string
	HasDefault bool
	// Doc says what it does, in units, in a sentence or two.
	Doc        string
	Importance Importance
	// Update is for broker configs; every topic config can be changed.
	Update Update
	// Synonyms are the broker configs that give this one its value when nobody
	// set it directly, strongest first. For a broker config the config itself is
	// among them.
	Synonyms []Synonym
	// Honoured is false for a config that Kafka has and chronik does not act on.
	// Its values are checked only to say first what Kafka would say.
	Honoured bool
	// Bounds says in words which values there are: "at least 1"; empty where any
	// value of the type will do.
	Bounds string

	checks []check
}

// Documentation is Doc with the bounds, as clients are told: DescribeConfigs has
// no field of its own for them.
func (d *Def) Documentation() string {
	if d.Bounds == "" {
		return d.Doc
	}
	return d.Doc + " Valid: " + d.Bounds + "."
}

// Synonym is another name for a config's value.
type Synonym struct {
	Name string
	// Scale turns the synonym's unit into the config's: 3,600,000 from hours to
	// milliseconds. 1 for the same unit and for what is no number.
	Scale int64
}

// check says what is wrong with a parsed value of the config, in Kafka's words.
type check func(*Def, value) error

// option completes a Def.
type option func(*Def)

// topicDef makes the definition of a topic config with its broker synonyms.
func topicDef(name string, t Type, def, doc string, opts ...option) *Def {
	d := &Def{Name: name, Type: t, Default: def, HasDefault: true, Doc: doc, Importance: Medium, Honoured: true}
	for _, o := range opts {
		o(d)
	}
	return d
}

// brokerDef makes the definition of a broker config that needs a restart.
func brokerDef(name string, t Type, def, doc string, opts ...option) *Def {
	d := &Def{Name: name, Type: t, Default: def, HasDefault: true, Doc: doc, Importance: Medium, Honoured: true,
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

func notHonoured(d *Def) { d.Honoured = false }

// bounded is checked with what the check asks for in words.
func bounded(words string, c check) option {
	return func(d *Def) { d.Bounds, d.checks = words, append(d.checks, c) }
}

func checked(c check) option { return func(d *Def) { d.checks = append(d.checks, c) } }
