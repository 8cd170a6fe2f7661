# Tests that clients who reconnect to a restarted relay receive what they missed, in order, and that the relay reads it from the
# store once, not for each client; also from a store with four shards.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

use constant { CLIENTS => 20, MISSED => 400, LARGE => 500_000, BEYOND => 4200, BEFORE => 80 }; # the replay buffer has room for 4096

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


# With four shards, a client receives the notifications for all and its own, of another shard, in commit order.
{
    local $ENV{CLAIRON_TEST_SHARDS} = 4;
    my $database = Clairon::Test::postgresql('of_shards');
    my $shards   = Clairon::Test::store();
    my $writer   = Clairon::Test::relay($database, $shards, roles => 'feed');
    my $reader   = Clairon::Test::relay(undef, $shards, roles => 'gate');
    my ($sum, $user_of) = (0, sub { my ($n) = @_; return $n % 4 == 0 ? 'u' . (1 + $n / 4 % CLIENTS) : 'all' });
    my $add = sub { my ($count, $bytes) = @_;
        $database->safe_psql('postgres', sprintf q{SELECT count(CASE WHEN i %% 4 = 0
            THEN clairon.notify('USER', ARRAY['u' || (1 + i / 4 %% %d)], jsonb_build_object('n', i, 'text', repeat('x', %d)))
            ELSE clairon.notify('ALL', '{}', jsonb_build_object('n', i, 'text', repeat('x', %2$d))) END) FROM generate_series(%d, %d) i},
            CLIENTS, $bytes, $sum + 1, $sum + $count);
        $sum += $count;
        return wait_until('all notifications are stored', sub { $shards->entries == $sum }) };
    my $expected = sub { my ($user, $from) = @_; return grep { $user_of->($_) =~ /^(?:all|\Q$user\E)$/ } $from .. $sum };

    # A cursor is read from the last notification, because a relay may serve a client before it has read what is stored.
    my %one = map { ("u$_" => $reader->client("u$_")) } 1 .. CLIENTS;
    $add->(BEFORE, 1);
    $one{$_}->wait_notifications(scalar $expected->($_, 1)) for sort keys %one;
    my %pos = map { ($_ => $one{$_}->pos) } keys %one;
    $_->close for values %one;
    $add->(MISSED, 300);
    $reader->restart;
    my $start = $shards->execute('INFO', 'stats') =~ /total_net_output_bytes:(\d+)/ ? $1 : die 'no statistics';
    %one = map { $_ => $reader->client($_, pos => $pos{$_}) } sort keys %pos;
    $one{$_}->wait_notifications(scalar $expected->($_, 1 + BEFORE)) for sort keys %one;
    is(join(' ', grep { numbers($one{$_}) ne join ',', $expected->($_, 1 + BEFORE) } sort keys %one), '', 'four shards: each client receives what it missed, in commit order');
    is(join('', map { $_->gaps } values %one), '', 'without a gap');
    cmp_ok(($shards->execute('INFO', 'stats') =~ /total_net_output_bytes:(\d+)/)[0] - $start, '<', 3 * MISSED * 1000, 'the store has not sent the streams for each client');

    # A cursor of a notification in the buffer is valid on another relay, and a client behind a large notification is served.
    my $middle = (grep { $_->{t} eq 'msg' } @{ $one{u3}{messages} })[ MISSED / 2 ];
    $add->(1, LARGE);
    $add->(100, 1);
    $reader->restart;
    for my $case ([ u3 => $middle->{pos}, 1 + $middle->{n}{payload}{n} ], [ u4 => $pos{u4}, 1 + BEFORE ])
    {
        my ($user, $from, $first) = @$case;
        my $late = $reader->client($user, pos => $from);
        $late->wait_notifications(scalar $expected->($user, $first));
        is(numbers($late), join(',', $expected->($user, $first)), "$user continues in order on a later relay");
        is($late->gaps, '', 'without a gap');
    }
}

done_testing();
