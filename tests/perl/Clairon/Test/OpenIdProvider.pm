# Clairon::Test::OpenIdProvider: an OpenID provider on loopback, whose keys rotate.
#
#   my $provider = Clairon::Test::OpenIdProvider->new;     # started; with TLS: new(cert => .., key => ..)
#   $provider->set(keys => ['rsa-1'], mode => 'ok')        # returns the JWK Set; modes: tests/tools/openid_provider.js
#   $provider->token('rsa-1', { sub => 'u1' }, header => {}, alg => 'PS256')
#   $provider->requests                                    # the GET requests so far: 'GET /jwks ok'
package Clairon::Test::OpenIdProvider;

use strict;
use warnings;

use parent -norequire, 'Clairon::Test::Process';
use Clairon::Test::Process;
use HTTP::Tiny;
use JSON ();

my $count = 0;

sub new
{
    my ($class, %tls) = @_;
    my $self = bless { %tls, name => 'OpenID provider', port => Clairon::Test::free_port(),
        log => Clairon::Test::scratch() . '/openid_provider' . $count++ }, $class;
    Clairon::Test::remember($self);
    $self->start;
    $self->wait_for_log(qr/^started$/m);
    return $self;
}

sub command { return ('node', Clairon::Test::top() . '/tests/tools/openid_provider.js', $_[0]{port}, $_[0]{cert} ? @{ $_[0] }{qw(cert key)} : ()) }
sub url { return ($_[0]{cert} ? 'https' : 'http') . "://127.0.0.1:$_[0]{port}$_[1]" }

sub post
{
    my ($self, $path, $body) = @_;
    my $response = HTTP::Tiny->new(verify_SSL => 0)->post($self->url($path), { content => JSON::encode_json($body) });
    die "$path: $response->{content}\n" if $response->{status} != 200;
    return $response->{content};
}

sub set { my ($self, %changes) = @_; return $self->post('/set', \%changes) }

sub token
{
    my ($self, $key, $claims, %options) = @_;
    return $self->post('/sign', { key => $key, claims => { exp => time + 600, %$claims }, %options });
}

sub requests { return $_[0]->log_text =~ /^(GET .*)$/mg }

1;
