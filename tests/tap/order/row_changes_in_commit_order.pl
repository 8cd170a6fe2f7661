# Tests that a row's changes are delivered in commit order: live, with a small in-flight window, on resume, and with
# retries in between.
use strict;
use warnings;

use Clairon::Test qw(wait_until scratch);
use Test::More;

use constant { ROWS => 10, CHANGES => 200 };

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, version int);
    CREATE TABLE hurry (id int PRIMARY KEY, version int);
    SELECT clairon.watch('t', 'ALL', ack_required => true, retry_limit => 100);    -- a slow machine must not exhaust them
    SELECT clairon.watch('hurry', 'ALL', priority => 'HIGH')});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'delivery.ack_timeout' => '100ms', 'delivery.backoff_base' => '10ms' });
$pg->safe_psql('postgres', "INSERT INTO $_ SELECT i, 0 FROM generate_series(1, ${\ROWS}) i") for qw(t hurry);
wait_until('the rows are stored', sub { $store->entries == 2 * ROWS });

# Acknowledges about half of the notifications, so that the other half is retried. One user reconnects after every tenth
# round; the other users never reconnect.
my %first;    # first deliveries of each user
sub process
{
    my ($user, $client, $at) = @_;
    my @notifications = $client->notifications;
    for my $notification (@notifications[ $at .. $#notifications ])
    {
        my $id = $notification->{metadata}{id};
        next if $first{$user}{had}{$id}++;
        push @{ $first{$user}{order} }, $notification;
        $first{$user}{updates}++ if $notification->{metadata}{operation} eq 'update';
    }
    my @ids = map { $_->{metadata}{id} } grep { $_->{routing}{retry}{ack_required} && rand() < 0.5 } @notifications[ $at .. $#notifications ];
    $client->ack(@ids) if @ids;
    return scalar @notifications;
}

my %client = (live => $relay->client('live'), comes => $relay->client('comes'), narrow => $relay->client('narrow', win => 20));
my %at     = map { $_ => 0 } keys %client;
my $changes = scratch() . '/changes.sql';
open my $file, '>', $changes or die "could not write $changes: $!";
for my $version (1 .. CHANGES)
{
    my $id = 1 + $version % ROWS;
    print {$file} "UPDATE t SET version = $version WHERE id = $id; UPDATE hurry SET version = $version WHERE id = $id;\n";
}
close $file;
my $writer = Clairon::Test::writer($pg, $changes);
my ($rounds, $acked) = (0, 0);
sub is_complete { my ($user) = @_; return 2 * CHANGES == ($first{$user}{updates} // 0) }
wait_until('all updates have arrived', sub {
    for my $user (keys %client)
    {
        my $ticks = 0;
        $client{$user}->run_until('one loop iteration has passed', sub { $ticks++ > 1 });
        $at{$user} = process($user, $client{$user}, $at{$user});
    }
    if (++$rounds % 10 == 0)
    {
        $at{comes} = process('comes', $client{comes}, $at{comes});    # notifications that arrived while the other clients ran
        my $pos = $client{comes}->pos;
        $client{comes}->close;
        $client{comes} = $relay->client('comes', pos => $pos);
        $at{comes} = 0;
    }
    # A user with a small in-flight window receives the remaining notifications as the acks arrive.
    if ($rounds % 3 == 0)
    {
        my @all = $client{narrow}->notifications;
        my @ids = map { $_->{metadata}{id} } grep { $_->{routing}{retry}{ack_required} } @all[ $acked .. $#all ];
        $client{narrow}->ack(@ids) if @ids;
        $acked = @all;
    }
    return 3 == grep { is_complete($_) } keys %client;
});
$writer->finish;
for my $user (sort keys %client)
{
    my (%last, @wrong);
    for my $notification (grep { $_->{metadata}{operation} eq 'update' } @{ $first{$user}{order} })
    {
        my ($row, $version) = ("$notification->{metadata}{source} $notification->{payload}{after}{id}", $notification->{payload}{after}{version});
        push @wrong, "$row: $version after $last{$row}" if ($last{$row} // 0) >= $version;
        $last{$row} = $version;
    }
    is_deeply(\@wrong, [], "$user receives each row's changes in commit order");
}
my $retries = grep { defined $_->{retry_users} } $store->entries;
cmp_ok($retries, '>', 0, "first deliveries are in commit order with $retries retries in between");

done_testing();
