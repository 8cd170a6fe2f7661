# Tests failovers after the primary of each kind of shard is killed or paused: each row is stored once and delivered in
# order, and all acknowledgements are stored.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed);
use Clairon::Test::Torture;
use Test::More;
use Time::HiRes qw(time);

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE one (id serial PRIMARY KEY, owner text);
    CREATE TABLE many (id serial PRIMARY KEY, team text);
    INSERT INTO clairon.member SELECT 'TEAM', 't1', 'u' || i FROM generate_series(0, 4) i;
    SELECT clairon.watch('one', 'USER', 'owner', ack_required => true);
    SELECT clairon.watch('many', 'TEAM', 'team', ack_required => true)});
my $cluster = Clairon::Test::store_cluster();
my $relay   = Clairon::Test::relay($pg, $cluster, conf => { 'delivery.ack_timeout' => '1h', 'gate.ping' => '1h' });
my %clients = map { $_ => $relay->client($_, win => 10_000) } map { "u$_" } 0 .. 4;
# Inserts rows for each user, and one row for all users.
my $torture = Clairon::Test::Torture->new(pg => $pg, seed => 1, tables => [qw(one many)], stored => sub { $cluster->stored });
$torture->start_writer(1, sub {
    return q{INSERT INTO one (owner) SELECT 'u' || i % 5 FROM generate_series(1, 10) i; INSERT INTO many (team) VALUES ('t1');} });

# Returns a user's notifications without duplicates. After a failover, notifications that the new primary lacked are
# delivered again.
sub received
{
    my ($user) = @_;
    my %had;
    return map { "$_->{metadata}{source} $_->{payload}{after}{id}" } grep { !$had{ $_->{metadata}{id} }++ } $clients{$user}->notifications;
}

# Waits until each user has received a notification that was committed after this call.
sub wait_delivered
{
    my ($what) = @_;
    my ($one, $many) = split /\|/, $pg->safe_psql('postgres', q{SELECT (SELECT coalesce(max(id), 0) FROM one), (SELECT coalesce(max(id), 0) FROM many)});
    my $since = time;
    for my $user (sort keys %clients)
    {
        $clients{$user}->run_until("$what: $user receives later notifications", sub {
            $_->ack_received for values %clients;
            return 2 == grep { my ($table, $last) = @$_; grep { $_->{metadata}{source} eq $table && $_->{payload}{after}{id} > $last } $clients{$user}->notifications }
              [ 'one', $one ], [ 'many', $many ] });
    }
    pass("$what: notifications of all shards are delivered");
    return note sprintf '%s: after %.1f s', $what, time - $since;
}

sub shard_of_user { my ($user) = @_; my ($entry) = grep { $_->{data} =~ /"owner":"$user"/ } $cluster->entries; return $entry->{stream} =~ /\{(\d+)\}/ ? $1 : die }

wait_delivered('initially');
my $own = shard_of_user('u1');
for my $case ([ 'a killed primary of shard 0', 0, 'kill' ], [ 'a paused primary of shard 0', 0, 'pause' ],
    [ 'a killed primary of a user\'s shard', $own, 'kill' ], [ 'a paused primary of a user\'s shard', $own, 'pause' ])
{
    my ($what, $shard, $how) = @$case;
    my $former = $cluster->primary_of($shard);
    if ($how eq 'kill') { $former->kill9 }
    else                { $cluster->pause($former) }
    wait_delivered($what);
    isnt($cluster->primary_of($shard), $former, "$what: another node is the primary");
    $cluster->heal;
    wait_delivered("$what returns");
}
$torture->stop;

wait_until('all rows are stored', sub { $cluster->stored >= $torture->committed });
$torture->check_stored_once($cluster->entries);
$torture->check_commit_order($_, $cluster->entries($_)) for grep { $cluster->execute('EXISTS', $_) } $cluster->keys('stream');
for my $user (sort keys %clients)
{
    my @expected = split /\n/, $pg->safe_psql('postgres', qq{SELECT 'many ' || id FROM many UNION ALL SELECT 'one ' || id FROM one WHERE owner = '$user'});
    $clients{$user}->run_until('all notifications arrive', sub { $clients{$user}->ack_received; received($user) >= @expected });
    my @received = received($user);
    is_deeply([ sort @received ], [ sort @expected ], "$user receives each notification");
    is($clients{$user}->gaps, '', "$user receives no gap");
    for my $table (qw(one many))
    {
        my @ids = map { /^$table (\d+)/ ? $1 : () } @received;
        is(scalar(grep { $ids[$_] < $ids[ $_ - 1 ] } 1 .. $#ids), 0, "$user receives the rows of $table in order");
    }
}
# Acknowledgements that were lost with a primary are sent again.
$_->close for values %clients;
for my $user (sort keys %clients)
{
    my $client = $clients{$user} = $relay->client($user);
    $client->run_until('all notifications are acknowledged', sub { $client->ack_received; !grep { $cluster->execute('EXISTS', $_) } $cluster->keys("pending_list:$user") });
}
is($cluster->pending, 0, 'all notifications are acknowledged');
wait_confirmed($pg);
pass('the slot advances');

done_testing();
