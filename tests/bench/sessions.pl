# Measures what a session costs: an acknowledgement while the in-flight window has a single slot and a backlog waits, and the memory of
# an idle connection with TLS (sessions/tls_clients.py).
use strict;
use warnings;

use Clairon::Test qw(wait_until scratch token);
use Clairon::Test::Authority;
use Measure qw(figure cpu);
use PostgreSQL::Test::Utils ();
use Targets;
use Test::More;

my $backlog = $ENV{BENCH_BACKLOG}     // 2000;
my $clients = $ENV{BENCH_TLS_CLIENTS} // 1000;

sub acknowledge
{
    my ($window) = @_;
    my $pg    = Clairon::Test::postgresql("window_$window");
    my $store = Clairon::Test::store();
    my $relay = Clairon::Test::relay($pg, $store, conf => { 'relay.log_level' => 'info', 'delivery.ack_timeout' => '1h', 'gate.message_rate' => 0 });
    $pg->safe_psql('postgres', "SELECT count(clairon.notify('USER', '{u1}', jsonb_build_object('n', i), ack_required => true)) FROM generate_series(1, $backlog) i");
    wait_until('the backlog is stored', sub { $store->entries == $backlog });
    my $before = cpu($store);
    my $client = $relay->client('u1', win => 0 + $window); # JSON: a number
    # Acknowledges immediately, because a store that waits between acknowledgements needs up to three times as much.
    my @ids;
    for (1 .. $backlog)
    {
        $client->wait_notifications(1) unless @ids;
        push @ids, map { $_->{metadata}{id} } $client->notifications;
        @{ $client->{messages} } = ();
        $client->ack(shift @ids);
    }
    wait_until('all acknowledgements are stored', sub { $store->pending == 0 });
    my $us   = (cpu($store) - $before) / $backlog;
    my $what = "window $window, $backlog pending: CPU of the store per acknowledgement";
    figure($what, sprintf '%.0f us', $us);
    Targets::record($what, 'below 150 us', sprintf('%.0f us', $us), $us < 150);
    $_->stop for $relay, $store, $pg;
    return;
}

sub resident { my ($relay) = @_; return 1024 * (PostgreSQL::Test::Utils::slurp_file('/proc/' . $relay->pid . '/status') =~ /VmRSS:\s*(\d+)/)[0] }

sub measure_tls
{
    my $own   = Clairon::Test::Authority->new->certificate('IP:127.0.0.1');
    my $store = Clairon::Test::store();
    my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0,
        conf => { 'relay.log_level' => 'info', 'gate.tls_cert' => $own->{cert}, 'gate.tls_key' => $own->{key}, 'gate.ping' => '10m', 'gate.connect_rate' => 0 });
    $relay->wait_for_log(qr/listening/);
    my @command = ('python3', Clairon::Test::top() . '/tests/bench/sessions/tls_clients.py', $relay->{port}, token(sub => 'idle'));
    my $hold    = sub {
        my ($count, $measure) = @_;
        my $pid  = open(my $out, '-|', @command, $count) or die "python3: $!\n";
        my $line = <$out>;
        my $got  = defined $line && $measure->();
        kill TERM => $pid;
        close $out;
        return $got;
    };
    $hold->(1, sub { 1 }) or die "the first client could not connect\n"; # loads what all clients share
    my $before = resident($relay);
    my $bytes  = ($hold->($clients, sub { resident($relay) }) - $before) / $clients;
    figure("memory of an idle connection with TLS 1.3, $clients of them", sprintf '%.1f kB', $bytes / 1000);
    Targets::record("memory of an idle connection with TLS 1.3, $clients of them", 'at most 15 kB', sprintf('%.1f kB', $bytes / 1000), $bytes <= 15000);
    $_->stop for $relay, $store;
    return;
}

acknowledge($_) for 1, 64;
measure_tls();
pass('measured');
done_testing();
