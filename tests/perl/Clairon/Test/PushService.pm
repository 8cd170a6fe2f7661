# Clairon::Test::PushService: a push service on loopback, which decrypts each request and verifies its VAPID token.
#
#   my $service = Clairon::Test::PushService->new;      # started; with TLS: new(origin => 'https://push.example', cert => .., key => ..)
#   $service->subscription('201/a')                     # JSON of a PushSubscription; the path decides the response
#   $service->requests                                  # the requests: { method, url, headers, vapid, plain, error }
package Clairon::Test::PushService;

use strict;
use warnings;

use parent -norequire, 'Clairon::Test::Process';
use Clairon::Test::Process;
use JSON ();

my $count = 0;

sub new
{
    my ($class, %tls) = @_;
    my $self = bless { %tls, name => 'push service', port => Clairon::Test::free_port(),
        log => Clairon::Test::scratch() . '/push_service' . $count++ }, $class;
    Clairon::Test::remember($self);
    $self->start;
    my ($line) = $self->wait_for_log(qr/^(\{.*\})\n/) =~ /^(\{.*\})\n/;
    $self->{keys} = JSON::decode_json($line);
    return $self;
}

sub command { return ('node', Clairon::Test::top() . '/tests/tools/push_service.js', $_[0]{port}, $_[0]{cert} ? @{ $_[0] }{qw(origin cert key)} : ()) }
sub origin { return $_[0]{origin} // "http://127.0.0.1:$_[0]{port}" }
sub subscription { my ($self, $path, %more) = @_; return { endpoint => $self->origin . "/$path", keys => $self->{keys}, %more } }

# Returns the requests, of all paths or of one.
sub requests
{
    my ($self, $path) = @_;
    my (undef, @lines) = split /\n/, $self->log_text;
    return grep { !defined $path || $_->{url} eq "/$path" } map { JSON::decode_json($_) } @lines;
}

1;
