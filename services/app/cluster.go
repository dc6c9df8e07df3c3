package app

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/frazil-io/frazil/libs/config"
	"github.com/frazil-io/frazil/libs/fault"
)

// Metadata keys of every call between services.
const (
	metaConfig = "frazil-config" // hash of what must be configured equally
	metaTime   = "frazil-time"   // Unix seconds, decimal
	metaProof  = "frazil-proof"  // HMAC over method and time, absent without a cluster secret
)

// maxSkew is how far the clocks of two services may be apart, and how long a proof that somebody overheard could be
// used again, for the method that it was made for.
const maxSkew = 2 * time.Minute

// cluster is what services of one installation know of each other. The secret itself never travels.
type cluster struct {
	secret     config.Secret
	configHash string
	now        func() time.Time
}

func (c *cluster) proof(method, unix string) string {
	mac := hmac.New(sha256.New, []byte(c.secret.Reveal()))
	mac.Write([]byte("frazil cluster v1\x00" + method + "\x00" + unix))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (c *cluster) attach(ctx context.Context, method string) context.Context {
	kv := []string{metaConfig, c.configHash}
	if !c.secret.Empty() {
		unix := strconv.FormatInt(c.now().Unix(), 10)
		kv = append(kv, metaTime, unix, metaProof, c.proof(method, unix))
	}
	return metadata.AppendToOutgoingContext(ctx, kv...)
}

// check verifies an incoming call. fault.ErrUnauthenticated: it does not come from this installation.
// fault.ErrUnavailable: it does, with another configuration; a roll-out passes through this state.
func (c *cluster) check(ctx context.Context, method string) error {
	md, _ := metadata.FromIncomingContext(ctx)
	if !c.secret.Empty() {
		unix := first(md, metaTime)
		if !hmac.Equal([]byte(first(md, metaProof)), []byte(c.proof(method, unix))) {
			return fmt.Errorf("call of %s without the cluster's secret: %w", method, fault.ErrUnauthenticated)
		}
		sent, err := strconv.ParseInt(unix, 10, 64)
		if err != nil || c.now().Sub(time.Unix(sent, 0)).Abs() > maxSkew {
			return fmt.Errorf("call of %s: the clocks of the services differ: %w", method, fault.ErrUnauthenticated)
		}
	}
	if theirs := first(md, metaConfig); theirs != c.configHash {
		return fmt.Errorf("the caller's configuration (%q) is not this service's (%q), compare `frazil config show`: %w",
			theirs, c.configHash, fault.ErrUnavailable)
	}
	return nil
}

func first(md metadata.MD, key string) string {
	if v := md.Get(key); len(v) > 0 {
		return v[0]
	}
	return ""
}

// serverOptions go after those of rpc, so that a refusal becomes a status like every other error.
func (c *cluster) serverOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			if err := c.check(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return h(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			if err := c.check(ss.Context(), info.FullMethod); err != nil {
				return err
			}
			return h(srv, ss)
		}),
	}
}

func (c *cluster) dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return invoke(c.attach(ctx, method), method, req, reply, cc, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return open(c.attach(ctx, method), desc, cc, method, opts...)
		}),
	}
}
