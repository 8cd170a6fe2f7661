# Tests that clients who reconnect to a restarted relay receive what they missed, in order, and that the relay reads it from the
# store once, not for each client.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

use constant { CLIENTS => 20, MISSED => 400, LARGE => 500_000, BEYOND => 4200 }; # the replay buffer has room for 4096

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $feed  = Clairon::Test::relay($pg, $store, roles => 'feed');
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate');

my $stored = 0;
sub notify { my ($count, $bytes) = @_;
    $pg->safe_psql('postgres', "SELECT count(clairon.notify('ALL', '{}', jsonb_build_object('n', $stored + i, 'text', repeat('x', $bytes))))
        FROM generate_series(1, $count) i");
    $stored += $count;
    return wait_until('all notifications are stored', sub { $store->execute('XLEN', $store->shared('stream')) == $stored });
}
sub sent { return $store->execute('INFO', 'stats') =~ /total_net_output_bytes:(\d+)/ ? $1 : die 'no statistics' }
sub numbers { my ($client) = @_; return join ',', map { $_->{payload}{n} } $client->notifications }

my $client = $relay->client('first');
notify(1, 1);
$client->wait_notifications(1);
my $pos = $client->pos;
notify(MISSED, 300);
$client->wait_notifications(1 + MISSED);
my $recent = $client->pos;

$relay->restart;
my $before  = sent();
my @clients = map { $relay->client("u$_", pos => $pos) } 1 .. CLIENTS;
$_->wait_notifications(MISSED) for @clients;
is(scalar(grep { numbers($_) eq join(',', 2 .. 1 + MISSED) } @clients), CLIENTS, 'each client receives what it missed, in order');
is(join('', map { $_->gaps } @clients), '', 'without a gap');
is($_->{messages}[0]{resumed} // '', JSON::true(), 'and is resumed') for $clients[0];
cmp_ok(sent() - $before, '<', 3 * MISSED * 1000, 'the store has not sent the stream for each client');

# Notifications beyond the buffer, and before a large one, are read from the store.
notify(1, LARGE);
notify(BEYOND, 1);
$relay->restart;
for my $case ([ $pos, 2 ], [ $recent, 2 + MISSED ])
{
    my $late = $relay->client('late', pos => $case->[0]);
    $late->wait_notifications($stored + 1 - $case->[1]);
    is(numbers($late), join(',', $case->[1] .. $stored), 'a client behind the buffer receives everything once, in order');
    is($late->gaps, '', 'without a gap');
}
notify(1, 1);
my $new = $relay->client('new', pos => $recent);
$new->run_until('the newest notification arrives', sub { numbers($new) =~ /,$stored$/ });
pass('new notifications follow');

done_testing();
