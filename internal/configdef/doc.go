// Package configdef is the registry of typed topic and broker configs: their
// names, types, defaults, bounds, documentation and synonyms.
//
// It holds the configs that chronik reads, and no others, so that
// DescribeConfigs tells the truth. A config that Kafka knows and chronik does
// not honour is refused by that name; an unknown one is refused as Kafka refuses
// it, in Kafka's words. Names, defaults and bounds are those of Apache Kafka 4.3;
// what begins with "chronik." or has no counterpart there is chronik's own.
//
// It promises that what a Check function accepted resolves without an error, and
// that resolving follows one order everywhere: the topic's own value, then the
// dynamic config of the broker, then that of all brokers, then the broker's
// static config, then the default.
//
// The controller checks alterations with it, handlers describe with it, and the
// broker resolves each topic once per change into a Topic, whose fields the hot
// path reads. It knows neither where configs are kept nor the protocol.
package configdef
