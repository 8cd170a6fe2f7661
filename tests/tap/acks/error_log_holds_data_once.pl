# Tests that the error log holds the JSON of a notification once, although its users are logged in several entries: its
# size is bounded, and each entry can be listed, redriven and dropped.
use strict;
use warnings;

use Clairon::Test qw(program script_text wait_until);
use Clairon::Test::Neighbour;
use IPC::Run qw(run);
use JSON ();
use Test::More;

my ($USERS, $BYTES) = (2500, 300_000);
my $pg = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);

sub errors_command
{
    my (@arguments) = @_;
    run [ program(), 'errors', @arguments, '-c', $relay->{file} ], '>', \my $out, '2>', \my $err;
    return $? == 0 ? $out : "status $?: $err";
}
sub of { my ($id) = @_; return grep { $_->{id} eq $id } $store->errors }
sub users_of { return map { @{ JSON::decode_json($_->{users}) } } @_ }

# Adds notifications that expire immediately, with many targets. Returns their ids after they expired.
sub expire
{
    my ($count) = @_;
    my @ids = split /\n/, $pg->safe_psql('postgres', "SELECT clairon.notify('USER', (SELECT array_agg('u' || i) FROM generate_series(1, $USERS) i),
        jsonb_build_object('text', repeat('x', $BYTES)), ack_required => true, ttl => '1 ms') FROM generate_series(1, $count)");
    wait_until('the notifications expire', sub { !grep { users_of(of($_)) < $USERS } @ids });
    return @ids;
}

my ($first, $second) = expire(2);
for my $id ($first, $second)
{
    my @entries = of($id);
    cmp_ok(scalar(@entries), '>', 1, 'the users are logged in several entries');
    is(scalar(grep { length $_->{data} } @entries), 1, 'one entry holds the JSON');
    my %seen;
    $seen{$_}++ for users_of(@entries);
    is_deeply([ scalar(keys %seen), grep { $_ > 1 } values %seen ], [$USERS], 'each user is logged once');
}
my $bytes = 0;
$bytes += length($_->{data}) + length($_->{route}) for $store->errors;
cmp_ok($bytes, '<', 3 * ($BYTES + 100_000), "the error log holds the JSON of each notification once: $bytes bytes");

my @listed = map { JSON::decode_json($_) } split /\n/, errors_command('list', '--json', $first);
is(scalar(@listed), scalar(of($first)), 'all entries are listed');
is_deeply([ grep { length($_->{notification}{payload}{text}) != $BYTES } @listed ], [], 'each entry is listed with its notification');

# The entry with the JSON is dropped first. The others keep the JSON, once.
my @before = of($first);
like(errors_command('drop', '--limit', 1, $first), qr/dropped 1 entry/, 'the entry with the JSON is dropped');
is(scalar(of($first)), @before - 1, 'the other entries remain');
@listed = map { JSON::decode_json($_) } split /\n/, errors_command('list', '--json', $first);
is_deeply([ grep { length($_->{notification}{payload}{text}) != $BYTES } @listed ], [], 'the others are still listed with their notification');
my $remaining = users_of(of($first));
my %old = map { $_->{entry} => 1 } of($first);
like(errors_command('redrive', $first), qr/for $remaining users/, 'the others are redriven');
# The renewed lifetime is short too, so new entries may follow.
is_deeply([ grep { $old{ $_->{entry} } } of($first) ], [], 'redriven entries are removed');

# All entries are redriven in one command, the entry with the JSON first.
like(errors_command('redrive', $second), qr/for $USERS users/, 'all users of the second notification are redriven');
wait_until('all notifications expire again', sub { $store->pending == 0 });
is(scalar(grep { length $_->{data} } of($second)), 1, 'entries after a redrive hold the JSON once too');
like(errors_command('drop', '--all'), qr/dropped \d+ entries/, 'all entries are dropped');
is_deeply([ map { @{ $store->execute('KEYS', "*:error_$_*") } } qw(parts split) ], [], 'nothing else of them remains');

# Over HTTP, for the console: an entry without the JSON is redriven too.
my ($third) = expire(1);
my ($part) = grep { !length $_->{data} } of($third);
my $entry = $store->execute('EVAL', script_text('error_entry'), 1, $store->of($third, 'stream'), $store->of($third, 'x') =~ s/:x$//r, $part->{entry}, 'read');
my %field = @{ $entry->[0][1] };
cmp_ok(length $field{data}, '>', $BYTES, 'an entry is read with the JSON of another entry');
is(length $field{route}, length((grep { length $_->{data} } of($third))[0]{route}), 'and with its header');
like(errors_command('drop', $third), qr/dropped \d+ entries/, 'entries are dropped');
is_deeply([ of($third) ], [], 'all entries of the notification are dropped');

# Users who are exhausted one after the other, at different times.
my $fourth = $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{a,b,c}', jsonb_build_object('text', repeat('x', $BYTES)), ack_required => true, retry_limit => 0)");
my @clients = map { $relay->client($_) } qw(a b c);
$_->run_until('the notification arrives', sub { $_[0] || $_->notifications }) for @clients;
for my $user (qw(a b c))
{
    $store->make_due($fourth, $user);
    wait_until("$user is exhausted", sub { grep { $_ eq $user } users_of(of($fourth)) });
}
is(scalar(of($fourth)), 3, 'each user has an entry');
is_deeply([ map { length $_->{data} > 0 ? 1 : 0 } of($fourth) ], [ 1, 0, 0 ], 'the first holds the JSON');

# The log is bounded in bytes; what is trimmed is counted.
sub trim_errors
{
    my ($limit) = @_;
    my $key = $store->of($fourth, 'stream');
    return $store->execute('EVAL', script_text('due') =~ s/\b268435456\b/$limit/gr, 1, $key, $key =~ s/:stream$//r, 1000, 3_600_000, 100, 1000)->[7];
}
expire(3);
is(trim_errors(268435456), 0, 'a small error log is not trimmed');
my $count = $store->error_count;
cmp_ok(my $trimmed = trim_errors(2 * $BYTES), '>', 0, 'an error log with too many bytes is trimmed');
is($store->error_count, $count - $trimmed, 'and the removed entries are counted');
cmp_ok($store->error_count, '>', 0, 'the newest entries remain');

# A neighbour's rows, while large rows of a table owner expire immediately, and while as many small rows do.
my $neighbour = Clairon::Test::Neighbour->new($pg, $relay, store => $store);
$pg->safe_psql('postgres', 'GRANT clairon_app TO mallory');    # permits the ttl
$neighbour->run_as('mallory', q{
    CREATE TABLE mallory.t (id serial PRIMARY KEY, owners text[], body text);
    SELECT clairon.watch('mallory.t', 'USER', 'owners', ack_required => true, ttl => '1 ms')});
sub rows_of_bytes { my ($size) = @_; return "INSERT INTO mallory.t (owners, body) SELECT (SELECT array_agg('u' || n) FROM generate_series(1, 10000) n), repeat('x', $size) FROM generate_series(1, 20)" }
$neighbour->remains_unnoticed('large rows that expire',
    sub { return $neighbour->worst_delay('large rows expire', rows_of_bytes(1_000_000)) },
    sub { return $neighbour->worst_delay('small rows expire', rows_of_bytes(100)) });

done_testing();
