// Package configdef is the registry of typed topic, group and broker configs: their names, types,
// defaults, bounds, documentation and synonyms.
//
// It contains exactly the configs that chronik reads, so that DescribeConfigs reports only
// effective ones. It refuses configs that Kafka has and chronik does not use by name, and unknown
// ones in Kafka's words. Names, defaults and bounds are those of Apache Kafka 4.3. Configs that
// begin with "chronik." or have no counterpart there are chronik's own.
//
// The package promises that values accepted by a Check function resolve without an error. Values
// resolve in the same order everywhere: the topic's own, the broker's dynamic config, the dynamic
// config of all brokers, the broker's static config, the default.
//
// The controller checks alterations with it, and handlers describe configs with it. The broker
// resolves each topic once per change into a Topic, whose fields the hot path reads. The package
// knows neither where configs are stored nor the protocol.
package configdef
