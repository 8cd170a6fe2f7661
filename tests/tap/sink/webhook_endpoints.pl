# Tests that receipts wait in the store while the endpoint of the webhook fails, whichever way, and are sent when it works
# again; that the log has the reason; and that certificates and addresses are checked.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Authority;
use Clairon::Test::Endpoint;
use Clairon::Test::Receipts;
use IO::Socket::SSL;
use Test::More;

my $pg       = Clairon::Test::postgresql('main');
my $store    = Clairon::Test::store();
my $receipts = Clairon::Test::Receipts->new($pg, $store);
my $relay;

# An endpoint whose behaviour is a file of its folder. `cert` and `key`: with TLS.
{
    package FailingEndpoint;
    use parent -norequire, 'Clairon::Test::Endpoint';

    my $LARGE = 10 << 20;

    # Returns the bytes of a large response that the relay has received, or the kernel has buffered. '': it is not over.
    sub sent { my ($self) = @_; open my $in, '<', "$self->{folder}/sent" or return ''; return <$in> // '' }

    sub new { my ($class, %options) = @_; return bless { %{ $class->SUPER::new(%options) }, %options }, $class }
    sub url { my ($self) = @_; return ($self->{cert} ? 'https://127.0.0.1' : 'http://localhost') . ":$self->{port}/hook" }

    sub behave
    {
        my ($self, $behaviour) = @_;
        open my $file, '>', "$self->{folder}/behaviour.new" or die "could not write: $!\n";
        print {$file} $behaviour;
        close $file;
        rename "$self->{folder}/behaviour.new", "$self->{folder}/behaviour" or die "could not rename: $!\n";
        return;
    }

    sub serve
    {
        my ($self, $socket) = @_;
        open my $file, '<', "$self->{folder}/behaviour" or return;
        my $behaviour = <$file>;
        if ($self->{cert})
        {
            $socket = IO::Socket::SSL->start_SSL($socket, SSL_server => 1, SSL_cert_file => $self->{cert}, SSL_key_file => $self->{key}) or return;
        }
        return $self->SUPER::serve($socket) if $behaviour eq 'works';
        while (defined(my $line = <$socket>)) { last if $line =~ /^\r?\n/ }
        $socket->autoflush;
        if ($behaviour eq 'dies') { print {$socket} "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart" }
        elsif ($behaviour eq 'redirects') { print {$socket} "HTTP/1.1 307 Moved\r\nLocation: /works\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" }
        elsif ($behaviour eq 'drips')
        {
            print {$socket} "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";
            while (print {$socket} '.') { select undef, undef, undef, 0.01 }
        }
        elsif ($behaviour eq 'floods')
        {
            local $SIG{PIPE} = 'IGNORE';
            my $sent = 0;
            print {$socket} "HTTP/1.1 200 OK\r\nContent-Length: $LARGE\r\n\r\n";
            while ($sent < $LARGE && defined(my $count = syswrite $socket, '.' x 65536)) { $sent += $count }
            open my $out, '>', "$self->{folder}/sent" or return;
            print {$out} "$sent\n";
        }
        return;
    }
}

my $secret = Clairon::Test::scratch() . '/secret';
open my $file, '>', $secret or die "could not write: $!";
print {$file} "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n";
close $file;
chmod 0600, $secret;

sub endpoint
{
    my (%options) = @_;
    my $endpoint = FailingEndpoint->new(folder => Clairon::Test::new_folder('endpoint'), %options);
    $endpoint->behave('works');
    Clairon::Test::remember($endpoint);
    $endpoint->start;
    return $endpoint;
}

sub wait_received
{
    my ($endpoint, $receipt) = @_;
    return wait_until('the endpoint has received the receipt', sub { grep { $_ eq $receipt } $endpoint->received });
}

# Starts a relay with this endpoint, without the settings of an earlier one.
sub use_endpoint
{
    my ($endpoint, %settings) = @_;
    my %conf = ('webhook.url' => $endpoint->url, 'webhook.secret_file' => $secret, 'webhook.timeout' => '1s', %settings);
    $relay->stop if $relay;
    $relay = Clairon::Test::relay($pg, $store, conf => \%conf);
    return;
}

# Failures of an endpoint.
my $plain = endpoint();
for my $case (
    [ dies      => qr/ status=0 error="[^"]+"/ ],
    [ drips     => qr/ status=0 error="timeout after 1000 ms: receiving the response"/ ],
    [ redirects => qr/ status=307 / ])
{
    my ($behaviour, $reason) = @$case;
    use_endpoint($plain, 'webhook.allow_private' => 'true');
    $plain->behave($behaviour);
    my ($receipt) = $receipts->add({});
    $relay->wait_for_log(qr/msg="webhook request failed" sink="?webhook"?$reason/);
    is(($relay->get('/readyz'))[0], 200, "the relay is ready while the endpoint $behaviour");
    is($receipts->pending('webhook'), 1, 'the receipt waits in the store');
    $plain->behave('works');
    ok(wait_received($plain, $receipt), "the receipt is sent when an endpoint that $behaviour works again");
    is(scalar(() = glob '/proc/' . $relay->pid . '/task/*'), 1, 'no thread was started, not for the lookup of the name either');
}

# A response of 10 MB: its status is a success, and the relay reads only the beginning.
use_endpoint($plain, 'webhook.allow_private' => 'true');
$plain->behave('floods');
$receipts->add({});
wait_until('the endpoint has ended its response', sub { $plain->sent =~ /\n/ });
cmp_ok($plain->sent, '<', 10 << 20, 'the relay does not read a response of 10 MB');
wait_until('its status is a success', sub { $receipts->pending('webhook') == 0 });

# Certificates. A relay takes the receipts of one that has ended only after ten seconds, so each relay has a new one.
my $authority = Clairon::Test::Authority->new;
my %good      = %{ $authority->certificate('IP:127.0.0.1') };
my $secure    = endpoint(cert => $good{cert}, key => $good{key});
my $misnamed  = endpoint(%{ $authority->certificate('DNS:other.example') }{qw(cert key)});
use_endpoint($secure, 'webhook.allow_private' => 'true');
$receipts->add({});
$relay->wait_for_log(qr/msg="webhook request failed" .*error="[^"]*unable to get local issuer certificate"/);
use_endpoint($misnamed, 'webhook.allow_private' => 'true', 'webhook.ca_file' => $good{ca});
$receipts->add({});
$relay->wait_for_log(qr/msg="webhook request failed" .*error="[^"]*subject name/);
is_deeply([ map { $_->requests } $secure, $misnamed ], [], 'no request is sent to an endpoint with a wrong certificate');

# Addresses: the endpoint is on loopback.
use_endpoint($secure, 'webhook.ca_file' => $good{ca});
$receipts->add({});
$relay->wait_for_log(qr/msg="webhook request failed" .*error="address is not public: 127\.0\.0\.1"/);
is_deeply([ $secure->requests ], [], 'no request is sent to a private address');

use_endpoint($secure, 'webhook.allow_private' => 'true', 'webhook.ca_file' => $good{ca});
my ($sent) = $receipts->add({});
ok(wait_received($secure, $sent), 'the receipt is sent over TLS');

# A proxy resolves the name of the endpoint.
my $proxy = endpoint();
use_endpoint($proxy, 'webhook.url' => 'http://endpoint.invalid/hook', 'webhook.allow_private' => 'true',
    'sink.proxy' => "http://127.0.0.1:$proxy->{port}");
my ($proxied) = $receipts->add({});
ok(wait_received($proxy, $proxied), 'the receipt is sent through the proxy');
wait_until('the receipts of the relays that ended are sent too', sub { $receipts->pending('webhook') == 0 });
done_testing();
