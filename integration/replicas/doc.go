// Package replicas tests several processes of every service on one Redis: what readers see while replicas are stopped,
// continued, killed and started, and when Redis loses what it had acknowledged.
package replicas
