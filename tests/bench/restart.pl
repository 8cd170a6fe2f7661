# Measures the restart of a relay whose clients (restart/clients.c) reconnect together and have missed the same notifications:
# the time until all clients have them, and the CPU of the store per client. Then the commands of the store with 16 shards: of a
# single row, and of an idle relay.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed token);
use Measure qw(figure cpu);
use PostgreSQL::Test::Utils ();
use Targets;
use Test::More;
use Time::HiRes qw(time);

my @clients = split ' ', $ENV{BENCH_RESTART_CLIENTS} // '1000 5000';
my $missed  = $ENV{BENCH_RESTART_MISSED} // 1100;
my $idle_s  = $ENV{BENCH_IDLE_SECONDS}   // 20;
my $program = PostgreSQL::Test::Utils::tempdir() . '/clients';
PostgreSQL::Test::Utils::system_or_bail($ENV{CC} // 'cc', qw(-std=gnu11 -D_GNU_SOURCE -O2 -o), $program, Clairon::Test::top() . '/tests/bench/restart/clients.c');

sub restart
{
    my ($shards, $clients) = @_;
    local $ENV{CLAIRON_TEST_SHARDS} = $shards;
    my $pg    = Clairon::Test::postgresql("restart_${shards}_$clients");
    my $store = Clairon::Test::store();
    my $feed  = Clairon::Test::relay($pg, $store, roles => 'feed', conf => { 'relay.log_level' => 'info' });
    my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'relay.log_level' => 'info' });
    my $first = $relay->client('first');
    $pg->safe_psql('postgres', q{SELECT clairon.notify('ALL', '{}', '{}')});
    $first->wait_notifications(1);
    my $pos = $first->pos;
    $first->close;
    $pg->safe_psql('postgres', "SELECT count(clairon.notify('ALL', '{}', jsonb_build_object('n', i))) FROM generate_series(1, $missed) i");
    wait_until('all notifications are stored', sub { $store->entries == 1 + $missed });
    $relay->restart;
    $relay->wait_ready;
    my $tokens = "$program.tokens";
    PostgreSQL::Test::Utils::append_to_file($tokens, join '', map { token(sub => "u$_") . "\n" } 1 .. $clients);
    my ($of_store, $of_relay) = (cpu($store), cpu($relay));
    my ($seconds, $resumed, $gaps) = split ' ', qx{'$program' $relay->{port} $pos $missed < '$tokens'};
    my $ms = (cpu($store) - $of_store) / 1000 / $clients;
    is("$resumed $gaps", "$clients 0", 'all clients are resumed, without a gap');
    unlink $tokens;
    figure("restart, $shards shards, $clients clients, $missed missed: all clients", sprintf '%.1f s', $seconds);
    figure("restart, $shards shards, $clients clients: CPU of the store, of the relay per client", sprintf '%.3f ms, %.3f ms', $ms, (cpu($relay) - $of_relay) / 1000 / $clients);
    Targets::record("restart, $shards shards, $clients clients: CPU of the store per client", 'below 0.2 ms', sprintf('%.3f ms', $ms), $ms < 0.2);
    $_->stop for $relay, $feed;
    $pg->stop;
    return;
}

sub commands { my ($store) = @_; my ($text, $sum) = ($store->execute('INFO', 'commandstats'), 0); $sum += $1 while $text =~ /calls=(\d+)/g; return $sum }
sub wait_s { my ($seconds) = @_; my $since = time; return wait_until('some seconds have passed', sub { time >= $since + $seconds }) }

sub count_commands
{
    my ($relays) = @_;
    local $ENV{CLAIRON_TEST_SHARDS} = 16;
    my $pg    = Clairon::Test::postgresql("commands_$relays");
    my $store = Clairon::Test::store();
    $pg->safe_psql('postgres', q{CREATE TABLE t (id serial, owner text); SELECT clairon.watch('t', 'USER', 'owner', operations => '{create}')});
    my @relays = map { Clairon::Test::relay($pg, $store) } 1 .. $relays;
    my $client = $relays[0]->client('u1');
    my $add    = sub { $pg->safe_psql('postgres', q{INSERT INTO t (owner) VALUES ('u1')}); return $client->wait_notifications($_[0]) };
    $add->(1);
    wait_confirmed($pg);
    my ($since, $before) = (time, commands($store));
    wait_s($idle_s);
    my $idle = (commands($store) - $before) / (time - $since);
    ($since, $before) = (time, commands($store));
    $add->(1 + $_) for 1 .. 100;
    my $row = (commands($store) - $before - $idle * (time - $since)) / 100;
    figure("16 shards, $relays relays: commands per second of an idle relay", sprintf '%.0f', $idle / $relays);
    figure("16 shards, $relays relays: commands of a single row", sprintf '%.1f', $row);
    Targets::record("16 shards, $relays relays: idle commands per second and relay", 'below 40', sprintf('%.0f', $idle / $relays), $idle / $relays < 40);
    Targets::record("16 shards: commands of a single row", 'below 15', sprintf('%.1f', $row), $row < 15) if $relays == 1;
    $_->stop for @relays;
    $pg->stop;
    return;
}

for my $count (@clients)
{
    restart($_, $count) for 1, 4;
}
count_commands($_) for 1, 2;
pass('measured');
done_testing();
